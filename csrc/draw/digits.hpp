// Binary digits of exp(-gamma) and ln 2, exact to the last one asked for. Deterministic: knows no generator.
#pragma once

#include <cstddef>

#include "draw/natural.hpp"

namespace privmw::draw {

// floor(2^bits * exp(-numerator / denominator)), exactly. Requires denominator > 0; an exponent of zero gives
// 2^bits.
Natural exp_digits(const Natural& numerator, const Natural& denominator, std::size_t bits);

// L with L <= 2^bits * ln 2 < L + 2.
Natural ln2_digits(std::size_t bits);

// The smallest integer d with exp(-d * numerator / denominator) <= 2^-halvings, exactly. Requires numerator >
// 0.
Natural halving_distance(const Natural& numerator, const Natural& denominator, unsigned halvings);

}  // namespace privmw::draw
