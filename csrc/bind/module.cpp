// Table of contents of the extension module; each file of this folder binds one noun.
#include "bind/pybind.hpp"

namespace privmw {

namespace py = pybind11;

void bind_columns(py::module_& m);
void bind_rows(py::module_& m);
void bind_marginals(py::module_& m);
void bind_weights(py::module_& m);
void bind_projection(py::module_& m);
void bind_moves(py::module_& m);
void bind_products(py::module_& m);
void bind_least_squares(py::module_& m);
void bind_responses(py::module_& m);
void bind_draws(py::module_& m);
void bind_capi(py::module_& m);

}  // namespace privmw

PYBIND11_MODULE(_native, m) {
    m.doc() = "Compiled kernels of privmw. Arguments are checked in privmw.kernels.";
    privmw::bind_columns(m);
    privmw::bind_rows(m);
    privmw::bind_marginals(m);
    privmw::bind_weights(m);
    privmw::bind_projection(m);
    privmw::bind_moves(m);
    privmw::bind_products(m);
    privmw::bind_least_squares(m);
    privmw::bind_responses(m);
    privmw::bind_draws(m);
    privmw::bind_capi(m);
}
