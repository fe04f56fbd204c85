#include "core/rows.hpp"

#include "bind/arrays.hpp"

namespace privmw {

namespace {

QueryList to_queries(const py::array& attributes, const py::array& values, const py::array& starts) {
    const auto a = values_of<std::int32_t>(attributes, "attributes");
    const auto v = values_of<std::uint32_t>(values, "values");
    const auto s = values_of<std::int64_t>(starts, "starts");
    return {{a.begin(), a.end()}, {v.begin(), v.end()}, {s.begin(), s.end()}};
}

}  // namespace

void bind_rows(py::module_& m) {
    m.def(
        "distinct_rows",
        [](const std::vector<py::array>& columns, const std::vector<std::uint32_t>& sizes, int threads) {
            const auto core = to_columns(columns, sizes);
            const auto rows = static_cast<std::size_t>(columns[0].size());
            DistinctRows distinct;
            {
                py::gil_scoped_release release;
                distinct = distinct_rows(core, rows, threads);
            }
            return py::make_tuple(to_array<Row>(distinct.first), to_array<std::int64_t>(distinct.counts));
        },
        py::arg("columns"), py::arg("sizes"), py::arg("threads"));

    m.def(
        "matching_rows",
        [](const BoundColumns& columns, const std::vector<std::uint32_t>& attributes,
           const std::vector<std::uint32_t>& values) {
            std::vector<std::uint64_t> bitmap((columns.columns.rows() + 63) / 64);
            std::size_t count = 0;
            {
                py::gil_scoped_release release;
                matching_bitmap(columns.columns.views(), columns.columns.rows(), attributes, values,
                                bitmap.data());
                count = count_rows(bitmap);
            }
            py::array_t<Row> rows(static_cast<py::ssize_t>(count));
            auto* out = rows.mutable_data();
            py::gil_scoped_release release;
            list_rows(bitmap, out);
            return rows;
        },
        py::arg("columns"), py::arg("attributes"), py::arg("values"));

    m.def(
        "matching_bitmap",
        [](const BoundColumns& columns, const std::vector<std::uint32_t>& attributes,
           const std::vector<std::uint32_t>& values) {
            py::array_t<std::uint64_t> words(static_cast<py::ssize_t>((columns.columns.rows() + 63) / 64));
            auto* data = words.mutable_data();
            py::gil_scoped_release release;
            matching_bitmap(columns.columns.views(), columns.columns.rows(), attributes, values, data);
            return words;
        },
        py::arg("columns"), py::arg("attributes"), py::arg("values"));

    m.def(
        "groups_alike",
        [](const BoundColumns& columns, const py::array& attributes, const py::array& values,
           const py::array& starts) {
            const QueryList queries = to_queries(attributes, values, starts);
            py::array_t<std::uint32_t> groups(static_cast<py::ssize_t>(columns.columns.rows()));
            auto* data = groups.mutable_data();
            std::uint32_t count = 0;
            {
                py::gil_scoped_release release;
                count = groups_alike(columns.columns, queries, data);
            }
            return py::make_tuple(groups, count);
        },
        py::arg("columns"), py::arg("attributes"), py::arg("values"), py::arg("starts"));

    m.def(
        "incidence_of_groups",
        [](const BoundColumns& columns, const py::array& rows, const py::array& attributes,
           const py::array& values, const py::array& starts, int threads) {
            const QueryList queries = to_queries(attributes, values, starts);
            const auto which = values_of<Row>(rows, "rows");
            Matches matches;
            {
                py::gil_scoped_release release;
                matches = incidence_of_groups(columns.columns, which, queries, threads);
            }
            return py::make_tuple(to_array<std::int64_t>(matches.starts),
                                  to_array<std::uint32_t>(matches.queries));
        },
        py::arg("columns"), py::arg("rows"), py::arg("attributes"), py::arg("values"), py::arg("starts"),
        py::arg("threads"));
}

}  // namespace privmw
