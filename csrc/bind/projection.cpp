#include "core/projection.hpp"

#include "bind/arrays.hpp"
#include "core/linear.hpp"
#include "core/tilt.hpp"

namespace privmw {

namespace {

// Arrays that Python owns, and the core's view of them.
struct BoundIncidence {
    BoundIncidence(py::array starts, py::array queries, std::size_t count)
        : owners{std::move(starts), std::move(queries)},
          incidence(values_of<std::int64_t>(owners[0], "starts"),
                    values_of<std::uint32_t>(owners[1], "queries"), count) {}
    py::array owners[2];
    Incidence incidence;
};

}  // namespace

void bind_projection(py::module_& m) {
    py::class_<BoundIncidence>(m, "Incidence")
        .def(py::init<py::array, py::array, std::size_t>(), py::arg("starts"), py::arg("queries"),
             py::arg("count"))
        .def(
            "potentials",
            [](const BoundIncidence& self, const py::array& values, py::array out, int threads) {
                const auto in = values_of<double>(values, "values");
                const auto potentials = writable_values_of<double>(out, "out");
                py::gil_scoped_release release;
                self.incidence.potentials(in.data(), threads, potentials.data());
            },
            py::arg("values"), py::arg("out"), py::arg("threads"))
        .def(
            "sums",
            [](const BoundIncidence& self, const py::array& weights, py::array out) {
                const auto in = values_of<double>(weights, "weights");
                const auto sums = writable_values_of<double>(out, "out");
                py::gil_scoped_release release;
                self.incidence.sums(in.data(), sums.data());
            },
            py::arg("weights"), py::arg("out"))
        .def(
            "gram",
            [](const BoundIncidence& self, const py::array& weights, int threads) {
                const auto in = values_of<double>(weights, "weights");
                const auto count = static_cast<py::ssize_t>(self.incidence.count());
                py::array_t<double> matrix({count, count});
                double* const out = matrix.mutable_data();
                py::gil_scoped_release release;
                self.incidence.gram(in.data(), threads, out);
                return matrix;
            },
            py::arg("weights"), py::arg("threads"))
        .def("nbytes", [](const BoundIncidence& self) { return self.incidence.bytes(); });

    m.def(
        "split_lists",
        [](const py::array& starts, const py::array& queries, std::uint32_t first, const py::array& matched,
           const py::array& matched_starts, const py::array& cut, const py::array& cut_starts) {
            const auto before = values_of<std::int64_t>(starts, "starts");
            const auto lists = values_of<std::uint32_t>(queries, "queries");
            const AddedQueries added{values_of<std::int64_t>(matched, "matched"),
                                     values_of<std::int64_t>(matched_starts, "matched_starts"),
                                     values_of<std::int64_t>(cut, "cut"),
                                     values_of<std::int64_t>(cut_starts, "cut_starts")};
            const std::size_t ends = before.size() + added.cut.size();
            py::array_t<std::int64_t> new_starts(static_cast<py::ssize_t>(ends));
            std::int64_t* const after = new_starts.mutable_data();
            {
                py::gil_scoped_release release;
                split_starts(before, added, after);
            }
            py::array_t<std::uint32_t> new_queries(static_cast<py::ssize_t>(after[ends - 1]));
            std::uint32_t* const out = new_queries.mutable_data();
            {
                py::gil_scoped_release release;
                split_lists(before, lists.data(), added, first, {after, ends}, out);
            }
            return py::make_tuple(new_starts, new_queries);
        },
        py::arg("starts"), py::arg("queries"), py::arg("first"), py::arg("matched"),
        py::arg("matched_starts"), py::arg("cut"), py::arg("cut_starts"));

    m.def(
        "solve_positive",
        [](const py::array& matrix, const py::array& right, py::array out) {
            const auto entries = values_of<double>(matrix, "matrix");
            const auto sides = values_of<double>(right, "right");
            const auto solution = writable_values_of<double>(out, "out");
            py::gil_scoped_release release;
            solve_positive(entries.data(), sides.data(), sides.size(), solution.data());
        },
        py::arg("matrix"), py::arg("right"), py::arg("out"));

    m.def(
        "most_potential",
        [](const py::array& base, const py::array& potentials, int threads) {
            const auto in = values_of<double>(base, "base");
            const auto by = values_of<double>(potentials, "potentials");
            py::gil_scoped_release release;
            return most_potential(in.data(), by.data(), in.size(), threads);
        },
        py::arg("base"), py::arg("potentials"), py::arg("threads"));

    m.def(
        "tilt",
        [](const py::array& base, const py::array& potentials, double most, py::array out, int threads) {
            const auto in = values_of<double>(base, "base");
            const auto by = values_of<double>(potentials, "potentials");
            const auto weights = writable_values_of<double>(out, "out");
            py::gil_scoped_release release;
            return tilt(in.data(), by.data(), most, in.size(), threads, weights.data());
        },
        py::arg("base"), py::arg("potentials"), py::arg("most"), py::arg("out"), py::arg("threads"));

    m.def(
        "normalise",
        [](py::array weights, int exponent, double factor, int threads) {
            const auto in = writable_values_of<double>(weights, "weights");
            py::gil_scoped_release release;
            normalise(in.data(), in.size(), exponent, factor, threads);
        },
        py::arg("weights"), py::arg("exponent"), py::arg("factor"), py::arg("threads"));
}

}  // namespace privmw
