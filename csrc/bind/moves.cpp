#include "core/moves.hpp"

#include "bind/arrays.hpp"

namespace privmw {

namespace {

// Values that Python owns, and the moves under them. A call holds on to the values that it began with.
struct BoundMoves {
    BoundMoves(const std::vector<std::uint32_t>& sizes, const py::array& attributes, const py::array& starts)
        : moves(sizes, to_workload(attributes, starts)),
          values(py::array_t<std::int64_t>(static_cast<py::ssize_t>(moves.cells()))) {
        std::fill_n(static_cast<std::int64_t*>(values.mutable_data()), moves.cells(), 0);
    }
    static MarginalList to_workload(const py::array& attributes, const py::array& starts) {
        const auto a = values_of<std::int32_t>(attributes, "attributes");
        const auto s = values_of<std::int64_t>(starts, "starts");
        return {{a.begin(), a.end()}, {s.begin(), s.end()}};
    }
    Moves moves;
    py::array values;
    int exponent = 0;
};

std::span<const std::uint32_t> codes_of(const py::array& codes) {
    if (!py::isinstance<py::array_t<std::uint32_t, py::array::c_style>>(codes) || codes.ndim() != 2)
        throw py::type_error("codes must be a contiguous two-dimensional array of uint32");
    return {static_cast<const std::uint32_t*>(codes.data()), static_cast<std::size_t>(codes.shape(0))};
}

}  // namespace

void bind_moves(py::module_& m) {
    using py::arg;
    py::class_<BoundMoves>(m, "Moves")
        .def(py::init<const std::vector<std::uint32_t>&, const py::array&, const py::array&>(), arg("sizes"),
             arg("attributes"), arg("starts"))
        .def(
            "set_values",
            [](BoundMoves& self, py::array values, int exponent) {
                values_of<std::int64_t>(values, "values");
                self.values = std::move(values);
                self.exponent = exponent;
            },
            arg("values"), arg("exponent"))
        .def(
            "redraw",
            [](const BoundMoves& self, py::array codes, std::uint32_t attribute, const py::array& kept,
               double keep, const py::array& base, const py::array& words, int threads) {
                const std::size_t records = codes_of(codes).size();
                auto* const drawn = static_cast<std::uint32_t*>(codes.mutable_data());
                const Weighing weighing{values_of<std::uint32_t>(kept, "kept").data(), keep,
                                        values_of<double>(base, "base")};
                const auto random = values_of<std::uint64_t>(words, "words");
                const py::array values = self.values;
                const auto in = values_of<std::int64_t>(values, "values");
                const int exponent = self.exponent;
                py::gil_scoped_release release;
                self.moves.redraw(in.data(), exponent, drawn, records, attribute, weighing, random.data(),
                                  threads);
            },
            arg("codes"), arg("attribute"), arg("kept"), arg("keep"), arg("base"), arg("words"),
            arg("threads"))
        .def(
            "potentials",
            [](const BoundMoves& self, const py::array& codes, py::array out, int threads) {
                const auto first = codes_of(codes);
                const auto potentials = writable_values_of<double>(out, "out");
                const py::array values = self.values;
                const auto in = values_of<std::int64_t>(values, "values");
                const int exponent = self.exponent;
                py::gil_scoped_release release;
                self.moves.potentials(in.data(), exponent, first.data(), first.size(), threads,
                                      potentials.data());
            },
            arg("codes"), arg("out"), arg("threads"))
        .def("nbytes", [](const BoundMoves& self) {
            return self.moves.bytes() + static_cast<std::size_t>(self.values.nbytes());
        });
}

}  // namespace privmw
