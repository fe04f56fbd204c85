// Integers times 2^exponent as doubles, for exponents beyond those of a double.
#pragma once

#include <bit>
#include <cmath>

#include "core/types.hpp"

namespace privmw {

// The nearest double of an int64. Its halves are placed in the low bits of two doubles, whose large parts
// cancel exactly before the only rounding: compilers can vectorise this. Real: a
// double, or a vector of them.
template <class Real, class Word>
inline __attribute__((always_inline)) Real to_doubles(Word sum) {
    const Real high = std::bit_cast<Real>((sum >> 32) ^ 0x4530000080000000);        // + 2^84 + 2^63
    const Real low = std::bit_cast<Real>((sum & 0xffffffff) | 0x4330000000000000);  // + 2^52
    return (high - (0x1p84 + 0x1p63 + 0x1p52)) + low;
}

inline double to_double(Wrapping sum) {
    return to_doubles<double, Wrapping>(sum);
}

// A value below 2^51 to the nearest integer: added to 1.5 * 2^52, it stands in the last bits of the sum.
// Compilers vectorise this too.
inline Wrapping rounded(double value) {
    constexpr double shift = 0x1.8p52;
    return std::bit_cast<Wrapping>(value + shift) - std::bit_cast<Wrapping>(shift);
}

// value * 2^exponent in two steps, so that the factor itself never overflows. Rounds only where the result
// is subnormal.
struct PowerOfTwo {
    explicit PowerOfTwo(int exponent)
        : first(std::ldexp(1.0, exponent / 2)), second(std::ldexp(1.0, exponent - exponent / 2)) {}
    double operator*(double value) const { return value * first * second; }
    double first, second;
};

}  // namespace privmw
