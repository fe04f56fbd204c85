#include "core/least_squares.hpp"

#include "bind/arrays.hpp"

namespace privmw {

namespace {

// Arrays and columns that Python owns, and the core's view of them.
struct BoundTallies {
    std::vector<py::object> owners;
    std::unique_ptr<Tallies> tallies;
};

BoundTallies make_tallies(const std::vector<std::uint32_t>& sizes, const py::array& attributes,
                          const py::array& starts, const py::object& columns, py::array groups,
                          py::array marked, int threads) {
    const auto places = values_of<std::int32_t>(attributes, "attributes");
    const auto begins = values_of<std::int64_t>(starts, "starts");
    Margins margins{sizes, {places.begin(), places.end()}, {begins.begin(), begins.end()}};
    const auto grouped = values_of<std::int32_t>(groups, "groups");
    const auto flags = values_of<std::uint8_t>(marked, "marked");
    BoundTallies bound{{groups, marked, columns}, nullptr};
    const auto* const rows = columns.is_none() ? nullptr : &columns.cast<const BoundColumns&>().columns;
    py::gil_scoped_release release;
    bound.tallies = rows ? tallies_of_rows(std::move(margins), *rows, grouped, flags, threads)
                         : tallies_of_histogram(std::move(margins), grouped, flags);
    return bound;
}

Values one_or_each(const py::array& array, const char* name) {
    const auto values = values_of<double>(array, name);
    return {values.data(), values.size() == 1 ? 0u : 1u};
}

py::tuple newton(const BoundTallies& self, const py::array& centre, const py::array& variance,
                 const py::array& lower, const py::array& upper, const py::array& answers,
                 const py::array& spread, const py::array& least, const py::array& most,
                 const py::array& start, double tolerance, int steps, double limit) {
    const FitTargets rows{values_of<double>(centre, "centre").data(), one_or_each(variance, "variance"),
                          one_or_each(lower, "lower"), one_or_each(upper, "upper")};
    const FitTargets queries{values_of<double>(answers, "answers").data(), one_or_each(spread, "spread"),
                             one_or_each(least, "least"), one_or_each(most, "most")};
    py::array_t<double> weights(static_cast<py::ssize_t>(self.tallies->rows()));
    auto multipliers = to_array<double>(values_of<double>(start, "start"));
    double *const found = weights.mutable_data(), *const duals = multipliers.mutable_data();
    Solution solution;
    {
        py::gil_scoped_release release;
        solution = solve(*self.tallies, rows, queries, {tolerance, steps, limit}, found, duals);
    }
    return py::make_tuple(weights, multipliers, solution.left, solution.value, solution.steps);
}

}  // namespace

void bind_least_squares(py::module_& m) {
    using py::arg;
    py::class_<BoundTallies>(m, "Tallies")
        .def(py::init(&make_tallies), arg("sizes"), arg("attributes"), arg("starts"),
             arg("columns").none(true), arg("groups"), arg("marked"), arg("threads"))
        .def(
            "sums",
            [](const BoundTallies& self, const py::array& weights, py::array out) {
                const auto in = values_of<double>(weights, "weights");
                const auto sums = writable_values_of<double>(out, "out");
                py::gil_scoped_release release;
                self.tallies->sums(in.data(), sums.data());
            },
            arg("weights"), arg("out"))
        .def(
            "potentials",
            [](const BoundTallies& self, const py::array& values, py::array out) {
                const auto in = values_of<double>(values, "values");
                const auto potentials = writable_values_of<double>(out, "out");
                py::gil_scoped_release release;
                self.tallies->potentials(in.data(), potentials.data());
            },
            arg("values"), arg("out"))
        .def("newton", &newton, arg("centre"), arg("variance"), arg("lower"), arg("upper"), arg("answers"),
             arg("spread"), arg("least"), arg("most"), arg("start"), arg("tolerance"), arg("steps"),
             arg("limit"))
        .def(
            "descend",
            [](const BoundTallies& self, const py::array& order, const py::array& precisions,
               const py::array& bends, py::array weights, py::array pulls) {
                const auto rows = values_of<Row>(order, "order");
                const auto given = values_of<double>(precisions, "precisions");
                const auto bent = values_of<double>(bends, "bends");
                const auto now = writable_values_of<double>(weights, "weights");
                const auto drawn = writable_values_of<double>(pulls, "pulls");
                py::gil_scoped_release release;
                return self.tallies->descend(rows, given.data(), bent.data(), now.data(), drawn.data());
            },
            arg("order"), arg("precisions"), arg("bends"), arg("weights"), arg("pulls"))
        .def("nbytes", [](const BoundTallies& self) { return self.tallies->bytes(); });
}

}  // namespace privmw
