// Table of contents of the extension module; each file of this folder binds one noun.
#include <pybind11/pybind11.h>

#include "core/parallel.hpp"

namespace py = pybind11;

void bind_draw(py::module_& m);

PYBIND11_MODULE(_native, m) {
    m.doc() = "Compiled kernels of privmw.";
    m.def("hardware_threads", &privmw::hardware_threads);
    bind_draw(m);
}
