// Exact selection that spends almost no randomness on hopeless candidates. See the header for the laws.
//
// Loops end after a number of refusals that random words reach with a probability below 2^-180, e^-128 being
// below 2^-184: the generator is stuck.
#include "draw/selection.hpp"

#include <array>
#include <bit>

#include "draw/strata.hpp"

namespace privmw::draw {
namespace {

// The number of heads of `count` coins of chance 1/2, `bits` times over: coins of chance 2^-bits.
std::uint64_t halve(const WordSource& words, std::uint64_t count, unsigned bits) {
    for (; bits > 0 && count > 0; --bits) {
        std::uint64_t heads = 0;
        for (; count >= 64; count -= 64) heads += static_cast<std::uint64_t>(std::popcount(words.next()));
        if (count > 0)
            heads +=
                static_cast<std::uint64_t>(std::popcount(words.next() & ((std::uint64_t{1} << count) - 1)));
        count = heads;
    }
    return count;
}

// Whether none of `count` coins of chance q = 2^-bits is heads, count <= 2^bits. Coin t is nominated with
// probability q, the nominations of different t exclude each other, and is the first head if none before it
// is heads: q (1 - q)^t, as required. So without a nomination none is heads; with one, the result is the
// opposite of that for the coins before t.
bool none(const WordSource& words, std::uint64_t count, unsigned bits) {
    bool result = true;
    for (;;) {
        if (count == 0) return result;
        const std::uint64_t nominated = uniform_below(words, std::uint64_t{1} << bits);
        if (nominated >= count) return result;
        count = nominated;
        result = !result;
    }
}

// The number of heads of `count` coins of chance 2^-bits: binomial, exactly. Rare heads are found by
// nomination, first head after first head, in lots so short that a nomination is rare: a word or so per lot
// and head, not per coin.
std::uint64_t count_heads(const WordSource& words, std::uint64_t count, unsigned bits) {
    if (bits < stratum_bits) return halve(words, count, bits);
    const std::uint64_t lot = std::uint64_t{1} << (bits - 2);
    std::uint64_t heads = 0;
    for (; count > 0; count -= std::min(count, lot)) {
        for (std::uint64_t coins = std::min(count, lot); coins > 0;) {
            const std::uint64_t nominated = uniform_below(words, std::uint64_t{1} << bits);
            if (nominated >= coins || !none(words, nominated, bits)) break;
            ++heads;
            coins -= nominated + 1;
        }
    }
    return heads;
}

// A coin of chance p is two: of chance 2^-bits, then of chance 2^bits p. The first coins only tell how many
// of a stratum go on, all its members being alike so far. Those who go on are visited in random order, each a
// uniform member of its stratum not seen before, until a second coin is heads: the first head in random order
// is uniform. A second coin is heads with probability above 2^-9 where bits < 32, the crown has fewer
// than k members, and where bits = 32 fewer than one is expected to go on: k + 2^9 visits or so at worst.
// With bits = 32 more than 64 go on with probability below 2^-300, and (1 - 2^-9)^(2^16) < e^-128.
template <class Scores>
std::size_t permute_and_flip(const WordSource& words, Strata<Scores>& strata, const Decay& decay) {
    std::array<std::uint64_t, strata_count> going{};
    std::uint64_t total = 0;
    for (unsigned s = 0; s < strata_count; ++s)
        total += going[s] = count_heads(words, strata.left(s), strata.bits(s));
    Wiped<typename Strata<Scores>::Pick> seen;
    const std::uint64_t most = strata.left(0) + 64 + (std::uint64_t{1} << 16);
    for (;; --total) {
        if (seen.size() == most) throw StuckGenerator();
        std::uint64_t ticket = uniform_below(words, total);  // the top is heads, so total >= 1
        unsigned s = 0;
        for (; ticket >= going[s]; ++s) ticket -= going[s];
        --going[s];
        seen.push_back(strata.pick(s, uniform_below(words, strata.left(s))));
        strata.take(seen.back());
        if (decay.coin(words, seen.back().distance, strata.bits(s))) break;
    }
    const std::size_t chosen = seen.back().index;  // it stays taken
    seen.pop_back();
    for (const auto& pick : seen) strata.put_back(pick);
    return chosen;
}

// Rejection. A candidate is proposed with probability proportional to its stratum's 2^-bits (one uniform
// integer names stratum and rank) and accepted with probability 2^bits p: together proportional to p. By the
// bounds above, at worst crown + 2^9 + 1 proposals are expected: 2^7 times as many are refused with
// probability below e^-128.
template <class Scores>
typename Strata<Scores>::Pick accepted(const WordSource& words, const Strata<Scores>& strata,
                                       const Decay& decay) {
    std::array<std::uint64_t, strata_count> shares{};
    std::uint64_t total = 0;  // below 2^31 * 2^32
    for (unsigned s = 0; s < strata_count; ++s)
        total += shares[s] = strata.left(s) << (most_bits - strata.bits(s));
    const std::uint64_t most = (strata.left(0) + 513) << 7;
    for (std::uint64_t tries = 0; tries < most; ++tries) {
        std::uint64_t ticket = uniform_below(words, total);
        unsigned s = 0;
        for (; ticket >= shares[s]; ++s) ticket -= shares[s];
        const auto pick = strata.pick(s, ticket >> (most_bits - strata.bits(s)));
        if (decay.coin(words, pick.distance, strata.bits(s))) return pick;
    }
    throw StuckGenerator();
}

template <class Scores>
std::size_t exponential(const WordSource& words, Strata<Scores>& strata, const Decay& decay) {
    const auto pick = accepted(words, strata, decay);
    strata.take(pick);
    return pick.index;
}

// k choices by `choose`, each among those that the earlier ones left.
template <class Scores, class Choose>
std::vector<std::int64_t> peel(const WordSource& words, const Scores& scores,
                               std::span<const std::int64_t> excluded, const Decay& decay, std::int64_t k,
                               const Choose& choose) {
    Strata<Scores> strata(scores, excluded, decay, k);
    std::vector<std::int64_t> chosen;
    for (;;) {
        chosen.push_back(static_cast<std::int64_t>(choose(words, strata, decay)));
        if (--k == 0) return chosen;
        strata.find_top();
    }
}

}  // namespace

template <class Scores>
std::vector<std::int64_t> select_permute_and_flip(const WordSource& words, const Scores& scores,
                                                  std::span<const std::int64_t> excluded, const Decay& decay,
                                                  std::int64_t k) {
    return peel(words, scores, excluded, decay, k, permute_and_flip<Scores>);
}

template <class Scores>
std::vector<std::int64_t> select_exponential(const WordSource& words, const Scores& scores,
                                             std::span<const std::int64_t> excluded, const Decay& decay,
                                             std::int64_t k) {
    return peel(words, scores, excluded, decay, k, exponential<Scores>);
}

template <class Scores>
std::vector<std::int64_t> draw_exponential(const WordSource& words, const Scores& scores, const Decay& decay,
                                           std::int64_t k) {
    const Strata<Scores> strata(scores, {}, decay, 1);
    std::vector<std::int64_t> chosen;
    for (; k > 0; --k) chosen.push_back(static_cast<std::int64_t>(accepted(words, strata, decay).index));
    return chosen;
}

#define PRIVMW_SELECTIONS_OF(Scores)                                                                  \
    template std::vector<std::int64_t> select_permute_and_flip(                                       \
        const WordSource&, const Scores&, std::span<const std::int64_t>, const Decay&, std::int64_t); \
    template std::vector<std::int64_t> select_exponential(                                            \
        const WordSource&, const Scores&, std::span<const std::int64_t>, const Decay&, std::int64_t)
template std::vector<std::int64_t> draw_exponential(const WordSource&, const StoredScores&, const Decay&,
                                                    std::int64_t);
PRIVMW_SELECTIONS_OF(StoredScores);
PRIVMW_SELECTIONS_OF(Errors);
#undef PRIVMW_SELECTIONS_OF

}  // namespace privmw::draw
