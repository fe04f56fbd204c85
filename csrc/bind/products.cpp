#include "core/products/products.hpp"

#include "bind/arrays.hpp"

namespace privmw {

namespace {

Products make_products(const std::vector<std::uint32_t>& sizes, const py::array& attributes,
                       const py::array& starts) {
    const auto a = values_of<std::int32_t>(attributes, "attributes");
    const auto s = values_of<std::int64_t>(starts, "starts");
    return {sizes, {{a.begin(), a.end()}, {s.begin(), s.end()}}};
}

template <class T>
const T* tables_of(const py::array& tables) {
    if (!py::isinstance<py::array_t<T, py::array::c_style>>(tables) || tables.ndim() != 2)
        throw py::type_error("tables must be a contiguous two-dimensional array of one floating type");
    return static_cast<const T*>(tables.data());
}

template <class T>
void write_answers(const Products& self, const py::array& tables, const py::array& weights, py::array& out,
                   int threads) {
    const T* const in = tables_of<T>(tables);
    const auto w = values_of<T>(weights, "weights");
    const auto answers = writable_values_of<T>(out, "out");
    py::gil_scoped_release release;
    self.answers(in, w.data(), w.size(), answers.data(), threads);
}

template <class T>
void write_gradient(const Products& self, const py::array& tables, const py::array& weights,
                    const py::array& by_cell, py::array& by_tables, py::array& by_weights, int threads) {
    const T* const in = tables_of<T>(tables);
    const auto w = values_of<T>(weights, "weights");
    const auto by = values_of<T>(by_cell, "by_cell");
    tables_of<T>(by_tables);
    T* const out = static_cast<T*>(by_tables.mutable_data());
    const auto out_weights = writable_values_of<T>(by_weights, "by_weights");
    py::gil_scoped_release release;
    self.gradient(in, w.data(), by.data(), w.size(), out, out_weights.data(), threads);
}

}  // namespace

void bind_products(py::module_& m) {
    using py::arg;
    py::class_<Products>(m, "Products")
        .def(py::init(&make_products), arg("sizes"), arg("attributes"), arg("starts"))
        .def(
            "answers",
            [](const Products& self, const py::array& tables, const py::array& weights, py::array out,
               int threads) {
                if (py::isinstance<py::array_t<float>>(tables))
                    write_answers<float>(self, tables, weights, out, threads);
                else
                    write_answers<double>(self, tables, weights, out, threads);
            },
            arg("tables"), arg("weights"), arg("out"), arg("threads"))
        .def(
            "gradient",
            [](const Products& self, const py::array& tables, const py::array& weights,
               const py::array& by_cell, py::array by_tables, py::array by_weights, int threads) {
                if (py::isinstance<py::array_t<float>>(tables))
                    write_gradient<float>(self, tables, weights, by_cell, by_tables, by_weights, threads);
                else
                    write_gradient<double>(self, tables, weights, by_cell, by_tables, by_weights, threads);
            },
            arg("tables"), arg("weights"), arg("by_cell"), arg("by_tables"), arg("by_weights"),
            arg("threads"));
}

}  // namespace privmw
