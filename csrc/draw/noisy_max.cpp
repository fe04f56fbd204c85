// Report-noisy-max with exponential noise, exactly: the cross-check of permute-and-flip, by another way and
// slower.
//
// With E_i = -ln U_i, the largest E_i - gamma_i is the smallest U_i / p_i. Two candidates are compared by
// U_i p_j < U_j p_i, both sides enclosed by integers: after t words, A <= 2^(64 t) U < A + 1 and P <= 2^(64
// t) p <= P + 1, with P = floor(2^(64 t) p), or 2^(64 t) - 1 when p = 1. Overlapping enclosures draw another
// word for both. The first champion is a candidate of the largest score, p = 1, so a champion always has U /
// p <= 1: its p is never small beside its U, and a hopeless challenger is refused by one word.
#include <algorithm>

#include "draw/selection.hpp"
#include "wiped.hpp"

namespace privmw::draw {
namespace {

struct Contender {
    std::size_t index;
    std::uint64_t distance;
    Wiped<std::uint64_t> drawn;  // the words of U, most significant first
    Decay::Bounds first;         // of P after one word

    Contender(const WordSource& words, const Decay& decay, std::size_t i, std::uint64_t from_top)
        : index(i), distance(from_top), drawn{words.next()} {
        first = distance == 0 ? Decay::Bounds{~std::uint64_t{0}, ~std::uint64_t{0}}
                              : decay.first_digits(distance, 0);
    }

    Natural prefix(const WordSource& words, std::size_t count) {
        while (drawn.size() < count) drawn.push_back(words.next());
        Natural value;
        for (std::size_t i = 0; i < count; ++i) value = (value << 64) + Natural(drawn[i]);
        return value;
    }

    Natural digits(const Decay& decay, std::size_t count) const {
        return distance == 0 ? Natural::power_of_two(64 * count) - Natural(1)
                             : decay.digits(distance, 64 * count);
    }
};

// (a + 1)(p + 1) - 1, which fits.
Wide above(std::uint64_t a, std::uint64_t p) {
    return static_cast<Wide>(a) * p + a + p;
}

bool beats(const WordSource& words, const Decay& decay, Contender& challenger, Contender& champion) {
    // Bounds wider than the exact digits decide only what those would decide alike.
    const std::uint64_t a = challenger.drawn[0], c = champion.drawn[0];
    if (above(a, champion.first.high) < static_cast<Wide>(c) * challenger.first.low) return true;
    if (static_cast<Wide>(a) * champion.first.low > above(c, challenger.first.high)) return false;
    for (std::size_t count = 1; count <= longest_comparison; ++count) {
        const Natural held = champion.prefix(words, count), tried = challenger.prefix(words, count);
        const Natural held_p = champion.digits(decay, count), tried_p = challenger.digits(decay, count);
        if ((tried + Natural(1)) * (held_p + Natural(1)) <= held * tried_p) return true;
        if (tried * held_p >= (held + Natural(1)) * (tried_p + Natural(1))) return false;
    }
    throw StuckGenerator();
}

}  // namespace

std::vector<std::int64_t> report_noisy_max(const WordSource& words, StoredScores scores, const Decay& decay,
                                           std::int64_t k) {
    Wiped<std::size_t> left(scores.size());  // candidates, ascending
    for (std::size_t i = 0; i < left.size(); ++i) left[i] = i;
    std::vector<std::int64_t> chosen;
    for (; k > 0; --k) {
        const std::size_t top = *std::max_element(
            left.begin(), left.end(), [&](std::size_t i, std::size_t j) { return scores[i] < scores[j]; });
        Contender champion(words, decay, top, 0);
        for (const std::size_t i : left) {
            if (i == top) continue;
            // Modulo 2^64 the difference is the true one, even where int64 would overflow.
            const auto distance =
                static_cast<std::uint64_t>(scores[top]) - static_cast<std::uint64_t>(scores[i]);
            Contender challenger(words, decay, i, distance);
            if (beats(words, decay, challenger, champion)) champion = std::move(challenger);
        }
        chosen.push_back(static_cast<std::int64_t>(champion.index));
        left.erase(std::lower_bound(left.begin(), left.end(), champion.index));
    }
    return chosen;
}

}  // namespace privmw::draw
