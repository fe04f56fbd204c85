// pybind11 as all bindings include it, before its other headers. Where arguments fit no signature its message
// shows the repr of each, which may be private records; here it shows their types.
#pragma once

#include <pybind11/pytypes.h>

namespace pybind11 {

inline str shown(handle value) {
    return value.is_none() ? str("None") : str(type::handle_of(value).attr("__name__"));
}

}  // namespace pybind11

#define repr shown
#include <pybind11/pybind11.h>
#undef repr

#include <pybind11/numpy.h>
#include <pybind11/stl.h>
