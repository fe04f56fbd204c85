// Errors as Python holds them: two arrays that must outlive what is computed from them.
#pragma once

#include "bind/arrays.hpp"
#include "draw/errors.hpp"

namespace privmw {

struct BoundErrors {
    py::array counts, answers;
    draw::Errors errors;
};

}  // namespace privmw
