// exp for non-positive numbers.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace privmw {

constexpr double least_normal = -708;  // exp of it is still a normal number

// x: IN and OUT, becomes exp(x) for x in [-708, 0], within 1 ulp: 2^n * exp(r), |r| <= ln(2) / 2, and
// Taylor's polynomial of degree 13, whose remainder is below 2^-57. Written so that compilers vectorise it on
// any instruction set; the same bits on every machine, unlike the C library. Real: a double, or a vector of
// them; several are interleaved to hide latency.
template <class Real, class Word, std::size_t count>
inline __attribute__((always_inline)) void exp_of_negatives(Real (&x)[count]) {
    constexpr double shift = 0x1.8p52;  // adding it rounds to an integer, in the low bits
    Real shifted[count], r[count], p[count];
    for (std::size_t i = 0; i < count; ++i) {
        shifted[i] = x[i] * 0x1.71547652b82fep0 + shift;  // 1 / ln(2)
        const Real n = shifted[i] - shift;
        r[i] = (x[i] - n * 0x1.62e42fefa0000p-1) - n * 0x1.cf79abc9e3b3ap-40;  // ln(2) in two parts
        p[i] = r[i] * (1.0 / 6227020800) + 1.0 / 479001600;
    }
    const auto add = [&](double coefficient) __attribute__((always_inline)) {
        for (std::size_t i = 0; i < count; ++i) p[i] = p[i] * r[i] + coefficient;
    };
    add(1.0 / 39916800);
    add(1.0 / 3628800);
    add(1.0 / 362880);
    add(1.0 / 40320);
    add(1.0 / 5040);
    add(1.0 / 720);
    add(1.0 / 120);
    add(1.0 / 24);
    add(1.0 / 6);
    add(0.5);
    for (std::size_t i = 0; i < count; ++i) {
        const Real power = 1 + (r[i] + r[i] * r[i] * p[i]);
        x[i] = std::bit_cast<Real>(std::bit_cast<Word>(power) + (std::bit_cast<Word>(shifted[i]) << 52));
    }
}

inline double exp_of_negative(double x) {
    double one[1] = {x};
    exp_of_negatives<double, std::uint64_t>(one);
    return one[0];
}

}  // namespace privmw
