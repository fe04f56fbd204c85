#include "bind/arrays.hpp"
#include "core/marginals/marginal_cells.hpp"

namespace privmw {

namespace {

std::unique_ptr<DeferredMarginals> make_marginals(const BoundColumns& columns, const py::array& attributes,
                                                  const py::array& starts, int threads) {
    const auto a = values_of<std::int32_t>(attributes, "attributes");
    const auto s = values_of<std::int64_t>(starts, "starts");
    MarginalList workload{{a.begin(), a.end()}, {s.begin(), s.end()}};
    return std::make_unique<DeferredMarginals>(columns.columns, std::move(workload), threads);
}

py::dict count_ways(const DeferredMarginals& marginals) {
    const Plan& plan = marginals.planned().plan();
    std::size_t counts[3] = {};
    for (std::size_t at = 0; at < plan.requested; ++at) ++counts[static_cast<int>(plan.marginals[at].way)];
    py::dict ways;
    ways["tiles"] = counts[0];
    ways["rare"] = counts[1];
    ways["lists"] = counts[2];
    ways["parents"] = plan.marginals.size() - plan.requested;
    return ways;
}

}  // namespace

void bind_marginals(py::module_& m) {
    py::class_<DeferredMarginals>(m, "Marginals")
        .def(py::init(&make_marginals), py::arg("columns"), py::arg("attributes"), py::arg("starts"),
             py::arg("threads"), py::keep_alive<1, 2>())
        .def(
            "sums",
            [](const DeferredMarginals& self, const py::array& masses, py::array out, int threads) {
                const auto in = values_of<Mass>(masses, "masses");
                const auto sums = writable_values_of<Mass>(out, "out");
                py::gil_scoped_release release;
                self.planned().sum(in.data(), threads, sums.data());
            },
            py::arg("masses"), py::arg("out"), py::arg("threads"))
        .def(
            "add_changes",
            [](const DeferredMarginals& self, const py::array& rows, const py::array& changes, py::array sums,
               int threads) {
                const auto in = values_of<Row>(rows, "rows");
                const auto added = values_of<Mass>(changes, "changes");
                const auto out = writable_values_of<Mass>(sums, "sums");
                py::gil_scoped_release release;
                self.planned().add_changes(in, added.data(), threads, out.data());
            },
            py::arg("rows"), py::arg("changes"), py::arg("sums"), py::arg("threads"))
        .def(
            "potentials",
            [](const DeferredMarginals& self, const py::array& values, int exponent, py::array out,
               int threads) {
                const auto in = values_of<std::int64_t>(values, "values");
                const auto potentials = writable_values_of<double>(out, "out");
                py::gil_scoped_release release;
                self.planned().potentials(in.data(), exponent, threads, potentials.data());
            },
            py::arg("values"), py::arg("exponent"), py::arg("out"), py::arg("threads"))
        .def("ways", &count_ways)
        .def("nbytes", [](const DeferredMarginals& self) { return self.planned().bytes(); });

    py::class_<MarginalCells>(m, "MarginalCells")
        .def(
            py::init([](const DeferredMarginals& marginals, const py::array& places, std::size_t most_bytes) {
                const auto in = values_of<std::int64_t>(places, "places");
                py::gil_scoped_release release;
                return std::make_unique<MarginalCells>(marginals, in, most_bytes);
            }),
            py::arg("marginals"), py::arg("places"), py::arg("most_bytes"), py::keep_alive<1, 2>())
        .def(
            "keep",
            [](MarginalCells& self, const py::array& kept) {
                self.keep(values_of<std::int64_t>(kept, "kept"));
            },
            py::arg("kept"))
        .def(
            "sums",
            [](const MarginalCells& self, const py::array& rows, const py::array& masses, py::array out,
               int threads) {
                const auto among = values_of<Row>(rows, "rows");
                const auto in = values_of<Mass>(masses, "masses");
                const auto sums = writable_values_of<Mass>(out, "out");
                py::gil_scoped_release release;
                self.sum(among, in.data(), threads, sums.data());
            },
            py::arg("rows"), py::arg("masses"), py::arg("out"), py::arg("threads"))
        .def(
            "potentials",
            [](const MarginalCells& self, const py::array& rows, const py::array& values, int exponent,
               py::array out, int threads) {
                const auto among = values_of<Row>(rows, "rows");
                const auto in = values_of<std::int64_t>(values, "values");
                const auto potentials = writable_values_of<double>(out, "out");
                py::gil_scoped_release release;
                self.potentials(among, in.data(), exponent, threads, potentials.data());
            },
            py::arg("rows"), py::arg("values"), py::arg("exponent"), py::arg("out"), py::arg("threads"))
        .def("nbytes", &MarginalCells::bytes);

    py::class_<GramProduct>(m, "GramProduct")
        .def(py::init([](const MarginalCells& cells, const py::array& prices) {
                 return std::make_unique<GramProduct>(cells, values_of<double>(prices, "prices"));
             }),
             py::arg("cells"), py::arg("prices"), py::keep_alive<1, 2>())
        .def(
            "spread",
            [](const GramProduct& self, const py::array& rows, const py::array& masses, int unit,
               int exponent, py::array out, int threads) {
                const auto among = values_of<Row>(rows, "rows");
                const auto in = values_of<Mass>(masses, "masses");
                const auto potentials = writable_values_of<double>(out, "out");
                py::gil_scoped_release release;
                self.spread(among, in.data(), unit, exponent, threads, potentials.data());
            },
            py::arg("rows"), py::arg("masses"), py::arg("unit"), py::arg("exponent"), py::arg("out"),
            py::arg("threads"));
}

}  // namespace privmw
