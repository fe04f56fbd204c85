// Numpy arrays as the core takes them: exact dtypes, contiguous, no silent cast. Values are checked in
// privmw/kernels.
#pragma once

#include <cstring>
#include <span>
#include <stdexcept>
#include <string>

#include "bind/pybind.hpp"
#include "core/columns.hpp"

namespace privmw {

namespace py = pybind11;

// A one-dimensional contiguous array of exactly this type.
template <class T>
std::span<const T> values_of(const py::array& array, const char* name) {
    if (!py::isinstance<py::array_t<T, py::array::c_style>>(array) || array.ndim() != 1)
        throw py::type_error(std::string(name) + " must be a contiguous one-dimensional array of " +
                             py::str(py::dtype::of<T>()).cast<std::string>());
    return {static_cast<const T*>(array.data()), static_cast<std::size_t>(array.size())};
}

template <class T>
std::span<T> writable_values_of(py::array& array, const char* name) {
    const auto values = values_of<T>(array, name);
    return {static_cast<T*>(array.mutable_data()), values.size()};  // mutable_data refuses read-only arrays
}

template <class T>
py::array_t<T> to_array(std::span<const T> values) {
    py::array_t<T> array(static_cast<py::ssize_t>(values.size()));
    if (!values.empty()) std::memcpy(array.mutable_data(), values.data(), values.size_bytes());
    return array;
}

// Codes that Python owns, and the core's columns made of them.
struct BoundColumns {
    std::vector<py::array> owners;
    Columns columns;
};

std::vector<Column> to_columns(const std::vector<py::array>& arrays, const std::vector<std::uint32_t>& sizes);

}  // namespace privmw
