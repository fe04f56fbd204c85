// Certified digits by fixed-point series with a proven error, widened until the asked digits are beyond
// doubt.
//
// Why the widening ends: exp(-q) is irrational for rational q != 0 (Lindemann) and so is ln 2 / q, hence no
// power of two times either is an integer, and a small enough enclosure holds no integer.
#include "draw/digits.hpp"

#include <algorithm>
#include <bit>

namespace privmw::draw {
namespace {

struct Approximation {
    Natural value;  // |value - 2^precision exp(-gamma)| <= error
    Natural error;
};

// exp(-gamma) = exp(-gamma / 2^h)^(2^h), with h such that y = gamma / 2^h < 2^-4. All in units of 2^-W, W =
// precision.
//
// Series: let T_i = 2^W y^i / i! and t_i its computed value, t_i = floor(floor(t_{i-1} Y / 2^W) / i), where Y
// = floor(2^W y).
//   T_i - t_i >= 0, and T_i - t_i <= ((T_{i-1} - t_{i-1}) y + t_{i-1} 2^-W) / i + 2 <= (T_{i-1} - t_{i-1}) /
//   2 + 3 <= 6. The alternating sum of the M terms computed before t_M = 0 is off by at most 6 M; the tail,
//   whose first term is at most 6 and whose terms halve at least, by at most 12.
// Squaring: with |v - V| <= e, V <= 2^W and e <= 2^(W/2), |floor(v^2 / 2^W) - V^2 / 2^W| <= 2 e + e^2 / 2^W +
// 1 <= 2 e + 2.
Approximation approximate_exp(const Natural& numerator, const Natural& denominator, std::size_t precision) {
    const std::size_t above = numerator.bit_length(), below = denominator.bit_length();
    const std::size_t halvings = (above + 1 > below ? above + 1 - below : 0) + 4;
    const Natural y = scaled_ratio(
        numerator, denominator, static_cast<std::int64_t>(precision) - static_cast<std::int64_t>(halvings));
    Natural term = Natural::power_of_two(precision), positive = term, negative;
    std::uint64_t terms = 1;
    for (;; ++terms) {
        term = ((term * y) >> precision) / Natural(terms);
        if (term.is_zero()) break;
        Natural& side = terms % 2 == 1 ? negative : positive;
        side = side + term;
    }
    Natural value = positive - negative;
    Natural error(6 * terms + 12);
    for (std::size_t i = 0; i < halvings; ++i) {
        value = (value * value) >> precision;
        error = error + error + Natural(2);
    }
    return {value, error};
}

// ln 2 = 2 atanh(1/3) = sum of 2 / ((2k+1) 3^(2k+1)). Each term loses less than 4 units of 2^-(bits+64) in
// its floors and the tail less than 4; fewer than 2^32 terms lose less than 2^35 units, which is below one
// unit of 2^-bits.
Natural sum_ln2(std::size_t bits) {
    Natural power = (Natural::power_of_two(bits + 64) << 1) / Natural(3), sum;
    for (std::uint64_t odd = 1; !power.is_zero(); odd += 2) {
        sum = sum + power / Natural(odd);
        power = power / Natural(9);
    }
    return sum >> 64;
}

}  // namespace

Natural exp_digits(const Natural& numerator, const Natural& denominator, std::size_t bits) {
    if (numerator.is_zero()) return Natural::power_of_two(bits);
    // ln 2 < 0.6932: beyond 0.6932 * bits the result is below one.
    if (numerator * Natural(10000) >= denominator * Natural(6932) * Natural(bits)) return {};
    for (std::size_t guard = 96;; guard *= 2) {
        const Approximation found = approximate_exp(numerator, denominator, bits + guard);
        // The squaring bound asks for e <= 2^(W/2); a narrower guard than that decides nothing.
        if (2 * found.error.bit_length() > bits + guard || found.value < found.error) continue;
        const Natural low = (found.value - found.error) >> guard, high = (found.value + found.error) >> guard;
        if (low == high) return low;
    }
}

Natural ln2_digits(std::size_t bits) {
    constexpr std::size_t kept_bits = 384;
    static const Natural kept = sum_ln2(kept_bits);
    // Less than 2 units off at 384 bits is less than 1 unit off, and a floor, at fewer.
    return bits < kept_bits ? kept >> (kept_bits - bits) : sum_ln2(bits);
}

Natural halving_distance(const Natural& numerator, const Natural& denominator, unsigned halvings) {
    // d >= halvings * ln 2 / unit, never an equality: the floor plus one.
    const Natural scaled = denominator * Natural(halvings);
    for (std::size_t bits = 64 + scaled.bit_length();; bits *= 2) {
        const Natural ln2 = ln2_digits(bits);
        const Natural low = scaled_ratio(scaled * ln2, numerator, -static_cast<std::int64_t>(bits));
        const Natural high =
            scaled_ratio(scaled * (ln2 + Natural(2)), numerator, -static_cast<std::int64_t>(bits));
        if (low == high) return low + Natural(1);
    }
}

}  // namespace privmw::draw
