#include "core/columns.hpp"

#include "bind/arrays.hpp"

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
}

}  // namespace privmw
