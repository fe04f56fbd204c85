// 2^exponent as a factor, for exponents that a double cannot hold.
#pragma once

#include <cmath>

namespace privmw {

// value * 2^exponent in two steps, so that the factor itself never overflows. Rounds only where the result
// is subnormal.
struct PowerOfTwo {
    explicit PowerOfTwo(int exponent)
        : first(std::ldexp(1.0, exponent / 2)), second(std::ldexp(1.0, exponent - exponent / 2)) {}
    double operator*(double value) const { return value * first * second; }
    double first, second;
};

}  // namespace privmw
