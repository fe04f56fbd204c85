// The passes over all cells. Almost always integers are below 2^51, exact in doubles, and every 64-bit
// processor handles two at a time.
#include "draw/errors.hpp"

#include <algorithm>
#include <bit>

namespace privmw::draw {
namespace {

typedef double Pair __attribute__((vector_size(16)));
typedef std::uint64_t Words __attribute__((vector_size(16)));

constexpr double two_to_52 = 0x1p52;
constexpr std::uint64_t exponent_of_2_52 = std::bit_cast<std::uint64_t>(two_to_52);

template <class Scores>
Extremes extremes_one_by_one(const Scores& scores, std::size_t first, std::size_t last) {
    Extremes found{scores[first], scores[first]};
    for (std::size_t i = first + 1; i < last; ++i) {
        const std::int64_t score = scores[i];
        found.smallest = std::min(found.smallest, score);
        found.largest = std::max(found.largest, score);
    }
    return found;
}

// Whether every number here is below 2^51, including the answers' rounding error.
bool fits_doubles(const Errors& errors) {
    return errors.whole <= 0x1p50;
}

// Two errors. A count's bits under the exponent of 2^52 are the double 2^52 + count; a sum near 1.5 * 2^52
// has no room for fractions, so that adding it rounds to an integer, ties to even, as rint does.
struct TwoErrors {
    const Errors& errors;
    double scale = static_cast<double>(std::uint64_t{1} << errors.bits);

    Pair operator()(std::size_t i) const {
        const Pair answers{errors.answers[i], errors.answers[i + 1]};
        const Words bits{static_cast<std::uint64_t>(errors.counts[i]),
                         static_cast<std::uint64_t>(errors.counts[i + 1])};
        const Pair rounded = (answers * errors.whole + 1.5 * two_to_52) - 1.5 * two_to_52;
        const Pair counts = std::bit_cast<Pair>(bits | exponent_of_2_52) - two_to_52;
        return std::bit_cast<Pair>(std::bit_cast<Words>(counts * scale - rounded) & (~std::uint64_t{0} >> 1));
    }
};

Pair larger(Pair a, Pair b) {
    return a > b ? a : b;
}
Pair smaller(Pair a, Pair b) {
    return a < b ? a : b;
}

std::int64_t largest_of(const Errors& errors, std::size_t first, std::size_t last) {
    if (!fits_doubles(errors)) return extremes_one_by_one(errors, first, last).largest;
    const TwoErrors two{errors};
    Pair even{}, odd{};  // two chains: one would wait for itself; errors are never negative
    std::size_t i = first;
    for (; i + 4 <= last; i += 4) {
        even = larger(two(i), even);
        odd = larger(two(i + 2), odd);
    }
    even = larger(odd, even);
    auto best = static_cast<std::int64_t>(std::max(even[0], even[1]));
    for (; i < last; ++i) best = std::max(best, errors[i]);
    return best;
}

}  // namespace

Extremes extremes_of(std::span<const std::int64_t> scores, std::size_t first, std::size_t last) {
    return extremes_one_by_one(scores, first, last);
}

Extremes extremes_of(const Errors& errors, std::size_t first, std::size_t last) {
    if (!fits_doubles(errors) || last - first < 2) return extremes_one_by_one(errors, first, last);
    const TwoErrors two{errors};
    Pair most = two(first), least = most;
    for (std::size_t i = first + 2; i + 2 <= last; i += 2) {
        const Pair pair = two(i);
        most = larger(pair, most);
        least = smaller(pair, least);
    }
    const Pair end = two(last - 2);  // seen before, but for the last of an odd number
    most = larger(end, most);
    least = smaller(end, least);
    return {static_cast<std::int64_t>(std::min(least[0], least[1])),
            static_cast<std::int64_t>(std::max(most[0], most[1]))};
}

void largest_errors(const Errors& errors, std::span<const std::int64_t> starts, std::span<std::int64_t> out) {
    for (std::size_t j = 0; j < out.size(); ++j)
        out[j] =
            largest_of(errors, static_cast<std::size_t>(starts[j]), static_cast<std::size_t>(starts[j + 1]));
}

}  // namespace privmw::draw
