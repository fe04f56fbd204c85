// exp for numbers that are not positive.
#pragma once

#include <bit>
#include <cstdint>

namespace privmw {

constexpr double least_normal = -708;  // exp of it is still a normal number

// exp(x) for x in [-708, 0], within 1 ulp: 2^n * exp(r), |r| <= ln(2) / 2, and Taylor's polynomial of degree
// 13, whose remainder is below 2^-57. Written so that compilers vectorise it on any instruction set;
// the same bits on every machine, which the C library does not promise. Real: a double, or a vector of them.
template <class Real, class Word>
inline __attribute__((always_inline)) Real exp_of_negatives(Real x) {
    constexpr double shift = 0x1.8p52;  // adding it rounds to an integer, which is then in the low bits
    const Real shifted = x * 0x1.71547652b82fep0 + shift;  // 1 / ln(2)
    const Real n = shifted - shift;
    const Real r = (x - n * 0x1.62e42fefa0000p-1) - n * 0x1.cf79abc9e3b3ap-40;  // ln(2) in two parts
    Real p = r * (1.0 / 6227020800) + 1.0 / 479001600;
    p = p * r + 1.0 / 39916800;
    p = p * r + 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    const Real power = 1 + (r + r * r * p);
    return std::bit_cast<Real>(std::bit_cast<Word>(power) + (std::bit_cast<Word>(shifted) << 52));
}

inline double exp_of_negative(double x) {
    return exp_of_negatives<double, std::uint64_t>(x);
}

}  // namespace privmw
