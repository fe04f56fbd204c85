// Discrete Laplace and discrete Gaussian noise (Canonne, Kamath, Steinke 2020), restructured for speed; the
// laws are theirs.
//
// Both cut the integers into strips of `width` t, |x| = t v + u with 0 <= u < t, draw the strip v as a
// geometric variable, the place u and the sign uniformly, and accept with a coin. Every probability is exp(-m
// * unit) for one unit and an integer m. The negative copy of zero is refused, so every integer has exactly
// one (sign, u, v).
#include "draw/noise.hpp"

#include <utility>

namespace privmw::draw {
namespace {

constexpr std::size_t largest_scale_bits = 40;

// With s = numerator / denominator: t = max(1, floor(s / 4)). Strips thinner than s accept more often: (1 -
// e^-c) / c for c = t / s, 0.88 at a quarter. Below s = 8 the strips are single integers and nothing is
// refused but the sign.
std::uint64_t laplace_width(const Natural& numerator, const Natural& denominator) {
    const std::uint64_t width = (numerator / (denominator * Natural(4))).low_word();
    return width == 0 ? 1 : width;
}

// t = max(1, floor(sqrt(5/2 sigma^2))): the acceptance 0.886 (1 - e^-tau) / sqrt(tau), tau = t^2 / (2
// sigma^2), is largest, 0.565, at tau = 1.26. Any t >= 1 gives the same law.
std::uint64_t gaussian_width(const Natural& numerator, const Natural& denominator) {
    const Wide square = ((numerator * Natural(5)) / (denominator * Natural(2))).low_wide();
    std::uint64_t root = 0;
    for (std::uint64_t bit = std::uint64_t{1} << (largest_scale_bits + 1); bit != 0; bit >>= 1)
        if (static_cast<Wide>(root + bit) * (root + bit) <= square) root += bit;
    return root == 0 ? 1 : root;
}

Wide square(std::uint64_t value) {
    return static_cast<Wide>(value) * value;
}

}  // namespace

bool laplace_scale_fits(const Natural& numerator, const Natural& denominator) {
    return numerator <= (denominator << largest_scale_bits);
}

bool gaussian_sigma2_fits(const Natural& numerator, const Natural& denominator) {
    return numerator <= (denominator << (2 * largest_scale_bits));
}

DiscreteLaplace::DiscreteLaplace(const Natural& scale_numerator, const Natural& scale_denominator)
    : decay_(scale_denominator, scale_numerator),
      width_(laplace_width(scale_numerator, scale_denominator)),
      strip_(decay_, width_) {}

// Pr[sign, u, v accepted] = 1/(2t) * exp(-u unit) * (1 - exp(-t unit)) exp(-v t unit), proportional to
// exp(-|x| unit). |x| < 2^51: t <= 2^38, and v < 2^12 because exp(-v t unit) exceeds 2^-512 and t unit > 1/8.
// Accepted with probability at least 1/2, which is that of scale 0: the negative copy of zero.
void DiscreteLaplace::draw(const WordSource& words, std::span<std::int64_t> out) const {
    for (std::int64_t& x : out) {
        for (int tries = 0;; ++tries) {
            if (tries == most_refusals) throw StuckGenerator();
            const std::uint64_t place = uniform_below(words, 2 * width_);
            if (!decay_.coin(words, place >> 1)) continue;
            const std::uint64_t size = width_ * strip_(words) + (place >> 1);
            const bool negative = place & 1;
            if (negative && size == 0) continue;
            x = negative ? -static_cast<std::int64_t>(size) : static_cast<std::int64_t>(size);
            break;
        }
    }
}

DiscreteGaussian::DiscreteGaussian(const Natural& sigma2_numerator, const Natural& sigma2_denominator)
    : decay_(sigma2_denominator, sigma2_numerator * Natural(2)),
      width_(gaussian_width(sigma2_numerator, sigma2_denominator)),
      strip_(decay_, square(width_)) {}

// unit = 1 / (2 sigma^2). The strip v is geometric with ratio exp(-t^2 unit), and the coin has exponent
// (x^2 - t^2 v) unit, which is not negative: |x| >= t v and v^2 >= v. So
// Pr[sign, u, v accepted] = 1/(2t) * (1 - exp(-t^2 unit)) exp(-t^2 v unit) * exp(-(x^2 - t^2 v) unit),
// proportional to exp(-x^2 unit). |x| < 2^52 and x^2 < 2^104: t < 2^41, and v < 2^11 because t^2 unit > 1/4.
// Accepted with probability above 0.42, the least: below sigma^2 = 8/5, where t steps from 1 to 2.
void DiscreteGaussian::draw(const WordSource& words, std::span<std::int64_t> out) const {
    for (std::int64_t& x : out) {
        for (int tries = 0;; ++tries) {
            if (tries == most_refusals) throw StuckGenerator();
            const std::uint64_t place = uniform_below(words, 2 * width_);
            const std::uint64_t strip = strip_(words);
            const std::uint64_t size = width_ * strip + (place >> 1);
            const bool negative = place & 1;
            if (negative && size == 0) continue;
            if (!decay_.coin(words, square(size) - square(width_) * strip)) continue;
            x = negative ? -static_cast<std::int64_t>(size) : static_cast<std::int64_t>(size);
            break;
        }
    }
}

Bernoulli::Bernoulli(Natural numerator, Natural denominator)
    : numerator_(std::move(numerator)),
      denominator_(std::move(denominator)),
      first_(scaled_ratio(numerator_, denominator_, 64).low_word()),
      certain_(numerator_ == denominator_) {}

// The rule of decay.hpp for a rational p < 1, after a first word equal to floor(2^64 p): the next words
// against the next digits. A prefix equal to p itself is tails: U >= p.
bool Bernoulli::settle(const WordSource& words) const {
    Natural drawn(first_), digits(first_);
    for (std::size_t count = 1; count <= longest_comparison; ++count) {
        if (drawn != digits) return drawn < digits;
        if (digits * denominator_ == numerator_ << (64 * count)) return false;
        drawn = (drawn << 64) + Natural(words.next());
        digits = scaled_ratio(numerator_, denominator_, static_cast<std::int64_t>(64 * (count + 1)));
    }
    throw StuckGenerator();
}

}  // namespace privmw::draw
