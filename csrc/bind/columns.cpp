#include "bind/arrays.hpp"
#include "core/rows.hpp"

namespace privmw {

std::vector<Column> to_columns(const std::vector<py::array>& arrays,
                               const std::vector<std::uint32_t>& sizes) {
    if (arrays.empty() || arrays.size() != sizes.size())
        throw std::invalid_argument("columns and sizes must be lists of one length, at least 1");
    std::vector<Column> columns;
    for (std::size_t a = 0; a < arrays.size(); ++a) {
        const py::array& array = arrays[a];
        Column column{array.data(), static_cast<int>(array.itemsize()), sizes[a]};
        if (column.width == 1)
            values_of<std::uint8_t>(array, "a column");
        else if (column.width == 2)
            values_of<std::uint16_t>(array, "a column");
        else
            values_of<std::uint32_t>(array, "a column");
        if (array.size() != arrays[0].size()) throw std::invalid_argument("columns must be of one length");
        columns.push_back(column);
    }
    return columns;
}

QueryList to_queries(const py::array& attributes, const py::array& values, const py::array& starts) {
    const auto a = values_of<std::int32_t>(attributes, "attributes");
    const auto v = values_of<std::uint32_t>(values, "values");
    const auto s = values_of<std::int64_t>(starts, "starts");
    return {{a.begin(), a.end()}, {v.begin(), v.end()}, {s.begin(), s.end()}};
}

void bind_columns(py::module_& m) {
    py::class_<BoundColumns>(m, "Columns")
        .def(py::init(
                 [](std::vector<py::array> columns, const std::vector<std::uint32_t>& sizes, int threads) {
                     auto core = to_columns(columns, sizes);
                     const auto rows = static_cast<std::size_t>(columns.at(0).size());
                     std::unique_ptr<BoundColumns> bound;
                     {
                         py::gil_scoped_release release;
                         bound.reset(new BoundColumns{{}, Columns(std::move(core), rows, threads)});
                     }
                     bound->owners = std::move(columns);
                     return bound;
                 }),
             py::arg("columns"), py::arg("sizes"), py::arg("threads"))
        .def("nbytes", [](const BoundColumns& self) { return self.columns.bytes(); });

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
                matching_bitmap(columns.columns, attributes, values, bitmap.data());
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
            matching_bitmap(columns.columns, attributes, values, data);
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
}

}  // namespace privmw
