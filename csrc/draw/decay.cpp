// 64 bits of exp(-m * unit) in a few multiplications, with a proven error; exact digits when those do not
// decide.
#include "draw/decay.hpp"

#include <array>
#include <bit>
#include <compare>
#include <limits>
#include <utility>

#include "draw/digits.hpp"

namespace privmw::draw {
namespace {

constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();

std::uint64_t high_product(std::uint64_t a, std::uint64_t b) {
    return static_cast<std::uint64_t>((static_cast<Wide>(a) * b) >> 64);
}

struct Constants {
    std::array<std::uint64_t, 256> power;  // |power[i] - 2^63 * 2^(-i/256)| < 2
    std::uint64_t ln2;                     // |ln2 - 2^64 * ln 2| < 2
};

// 2^(-1/256) = exp(-ln 2 / 256) to 192 bits, and its powers; each product loses less than 2 units of the
// 192nd bit.
Constants find_constants() {
    constexpr std::size_t bits = 192;
    Constants found{};
    const Natural ln2 = ln2_digits(bits);
    const Natural root = exp_digits(ln2, Natural::power_of_two(bits + 8), bits);
    Natural power = Natural::power_of_two(bits);
    for (std::uint64_t& entry : found.power) {
        entry = (power >> (bits - 63)).low_word();
        power = (power * root) >> bits;
    }
    found.ln2 = (ln2 >> (bits - 64)).low_word();
    return found;
}

const Constants constants = find_constants();

// 2^-f on a scale of 2^63, f = fraction / 2^64, off by less than 32.
//
// f = i/256 + r, and 2^-r = exp(-y) with y = r ln 2 < 2^-8.5. The series 1 - y + y^2/2 - y^3/6 + y^4/24 -
// y^5/120 leaves out less than y^6/720 < 2^-60.4, 13 units of 2^-64. y is off by less than 2 units (ln2 by
// 2^-8 * 2, one floor, y is used on the scale 2^64); each Horner step adds a floor and a rounded coefficient,
// 2 units at most, and divides what came before by 2^8.5: in all `lost` is off by less than 13 + 2 + 3 = 18
// units of 2^-64. The last product is off by 9 + 1 units of 2^-63 for that, 2 for the table, and 1 for its
// floor: 13 < 32.
std::uint64_t exp2_negative(std::uint64_t fraction) {
    const std::uint64_t y = high_product(fraction & (largest >> 8), constants.ln2);
    std::uint64_t lost = largest / 24 - high_product(y, largest / 120);
    lost = largest / 6 - high_product(y, lost);
    lost = largest / 2 - high_product(y, lost);
    lost = largest - high_product(y, lost);
    lost = high_product(y, lost);  // 1 - exp(-y)
    const std::uint64_t power = constants.power[fraction >> 56];
    return power - high_product(power, lost);
}

}  // namespace

Decay::Decay(Natural numerator, Natural denominator)
    : numerator_(std::move(numerator)), denominator_(std::move(denominator)) {
    constexpr std::size_t bits = 192;
    // At least 128 bits of unit / ln 2, from below: the divisor is the upper bound of ln 2, too large by less
    // than one part in 2^190. Cut to 64 bits, the truth is less than 2 units above.
    const std::int64_t scale = 130 - static_cast<std::int64_t>(numerator_.bit_length()) +
                               static_cast<std::int64_t>(denominator_.bit_length());
    const Natural rate = scaled_ratio(numerator_, denominator_ * (ln2_digits(bits) + Natural(2)),
                                      scale + static_cast<std::int64_t>(bits));
    const std::size_t drop = rate.bit_length() - 64;
    rate_ = (rate >> drop).low_word();
    scale_ = scale - static_cast<std::int64_t>(drop);
}

// x = m * unit / ln 2 = k + f, and exp(-m unit) = 2^-x. With n the leading 64 bits of m, m < (n + 1) 2^z, and
// exact when z = 0: x lies between n * rate * 2^-s and (n + 1)(rate + 2) 2^-s (n (rate + 2) 2^-s when z = 0),
// where s = scale - z.
//
// The width matters only while k < 2^7 (else the digits are zero, for shift <= 32). Then n rate < 2^(s+7).
//   rate >= 2^63 gives n < 2^(s-56), so 2 n 2^-s < 2^-55.
//   z > 0 gives n >= 2^63, so s > 119, and (rate + 2) 2^-s < 2^64 * 2^-119 * 2 = 2^-54.
// With the floor of f, x exceeds k + f / 2^64 by less than 2^-53 in all, and p = 2^(shift - x) <= 1 falls
// short of 2^(shift - k - f) by less than 2^-53 ln 2 < 2^11.5 units of 2^-64. The power itself is off by 2 *
// 32 units. So 2^12 units either way, in integers, enclose 2^64 p and with it its floor.
Decay::Bounds Decay::first_digits(Wide m, unsigned shift) const {
    constexpr std::uint64_t margin = 1 << 12;
    const auto high_half = static_cast<std::uint64_t>(m >> 64);
    const int cut = high_half == 0 ? 0 : static_cast<int>(std::bit_width(high_half));
    const Wide product = static_cast<Wide>(static_cast<std::uint64_t>(m >> cut)) * rate_;
    const std::int64_t s = scale_ - cut;
    std::uint64_t whole = 0, fraction = 0;
    if (s <= 0) {
        return {0, 0};  // x >= product >= 2^63
    } else if (s < 64) {
        if ((product >> s) >= 128) return {0, 0};
        whole = static_cast<std::uint64_t>(product >> s);
        fraction = static_cast<std::uint64_t>(product << (64 - s));
    } else if (s < 192) {
        const Wide fixed = product >> (s - 64);
        if ((fixed >> 64) >= 128) return {0, 0};
        whole = static_cast<std::uint64_t>(fixed >> 64);
        fraction = static_cast<std::uint64_t>(fixed);
    }
    if (whole >= 64 + shift) return {0, 0};  // x >= 64 + shift, so P = 0
    if (whole < shift) {  // the caller knows x >= shift; the lower bound of x missed it by a hair
        whole = shift;
        fraction = 0;
    }
    // 2^(64 - (whole - shift)) * 2^-f from the scale of 2^63, without overflow at f = 0.
    const Wide value = (static_cast<Wide>(exp2_negative(fraction)) << 1) >> (whole - shift);
    const Wide above = value + margin;
    return {value > margin ? static_cast<std::uint64_t>(value - margin) : 0,
            above > largest ? largest : static_cast<std::uint64_t>(above)};
}

Natural Decay::digits(Wide m, std::size_t bits) const {
    return exp_digits(Natural::from_wide(m) * numerator_, denominator_, bits);
}

bool Decay::settle(const WordSource& words, std::uint64_t first, Wide m, unsigned shift) const {
    Natural drawn(first);
    for (std::size_t count = 1; count <= longest_comparison; ++count) {
        const std::strong_ordering order = drawn <=> digits(m, 64 * count + shift);
        if (order != std::strong_ordering::equal) return order == std::strong_ordering::less;
        drawn = (drawn << 64) + Natural(words.next());
    }
    throw StuckGenerator();
}

Geometric::Geometric(const Decay& decay, Wide step) : decay_(decay), step_(step) {
    do {
        bounds_.push_back(decay_.first_digits(step_ * (bounds_.size() + 1), 0));
    } while (bounds_.back().high != 0);
}

std::uint64_t Geometric::settle(const WordSource& words, std::uint64_t first, std::uint64_t passed) const {
    Natural drawn(first);
    for (std::size_t count = 1; count <= longest_comparison;) {
        const std::strong_ordering order = drawn <=> decay_.digits(step_ * (passed + 1), 64 * count);
        if (order == std::strong_ordering::less) {
            ++passed;
        } else if (order == std::strong_ordering::greater) {
            return passed;
        } else {
            drawn = (drawn << 64) + Natural(words.next());
            ++count;
        }
    }
    throw StuckGenerator();
}

}  // namespace privmw::draw
