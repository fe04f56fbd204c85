// Table of contents of the extension module; each file of this folder binds one noun.
#include "bind/arrays.hpp"

PYBIND11_MODULE(_native, m) {
    m.doc() = "Compiled kernels of privmw. Arguments are checked in privmw.kernels.";
    privmw::bind_columns(m);
    privmw::bind_errors(m);  // before the draws that take them
    privmw::bind_draw(m);
    privmw::bind_least_squares(m);
    privmw::bind_marginals(m);
    privmw::bind_projection(m);
    privmw::bind_weights(m);
}
