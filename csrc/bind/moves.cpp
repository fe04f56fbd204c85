#include "core/moves.hpp"

#include <algorithm>

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
    // Null if all values are zero.
    const std::int64_t* values_or_null() const {
        return zero ? nullptr : static_cast<const std::int64_t*>(values.data());
    }
    Moves moves;
    py::array values;
    int exponent = 0;
    bool zero = true;
};

std::size_t records_of(const py::array& codes) {
    if (!py::isinstance<py::array_t<std::uint32_t, py::array::c_style>>(codes) || codes.ndim() != 2)
        throw py::type_error("codes must be a contiguous two-dimensional array of uint32");
    return static_cast<std::size_t>(codes.shape(0));
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
                const auto given = values_of<std::int64_t>(values, "values");
                self.zero =
                    std::all_of(given.begin(), given.end(), [](std::int64_t value) { return !value; });
                self.values = std::move(values);
                self.exponent = exponent;
            },
            arg("values"), arg("exponent"))
        .def(
            "redraw",
            [](const BoundMoves& self, py::array codes, const std::vector<std::uint32_t>& attributes,
               const py::array& kept, double keep, const std::vector<py::array>& base,
               const std::vector<py::array>& words, int threads) {
                const std::size_t records = records_of(codes), width = self.moves.attributes();
                auto* const drawn = static_cast<std::uint32_t*>(codes.mutable_data());
                records_of(kept);
                const auto* const of_kept = static_cast<const std::uint32_t*>(kept.data());
                std::vector<Moves::Draw> draws;
                for (std::size_t i = 0; i < attributes.size(); ++i) {
                    const std::uint32_t a = attributes[i];
                    draws.push_back({a,
                                     {of_kept + a, keep, values_of<double>(base.at(i), "base"), width},
                                     values_of<std::uint64_t>(words.at(i), "words").data()});
                }
                const py::array values = self.values;
                const auto* const in = self.values_or_null();
                const int exponent = self.exponent;
                py::gil_scoped_release release;
                self.moves.redraw(in, exponent, drawn, records, draws, threads);
            },
            arg("codes"), arg("attributes"), arg("kept"), arg("keep"), arg("base"), arg("words"),
            arg("threads"))
        .def(
            "potentials",
            [](const BoundMoves& self, const py::array& codes, py::array out, int threads) {
                const std::size_t records = records_of(codes);
                const auto* const first = static_cast<const std::uint32_t*>(codes.data());
                const auto potentials = writable_values_of<double>(out, "out");
                const py::array values = self.values;
                const auto in = values_of<std::int64_t>(values, "values");
                const int exponent = self.exponent;
                py::gil_scoped_release release;
                self.moves.potentials(in.data(), exponent, first, records, threads, potentials.data());
            },
            arg("codes"), arg("out"), arg("threads"))
        .def("nbytes", [](const BoundMoves& self) {
            return self.moves.bytes() + static_cast<std::size_t>(self.values.nbytes());
        });
}

}  // namespace privmw
