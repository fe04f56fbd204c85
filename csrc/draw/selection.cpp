// Exact selection that spends almost no randomness on hopeless candidates. See the header for the laws.
#include "draw/selection.hpp"

#include <array>
#include <bit>

#include "draw/candidates.hpp"

namespace privmw::draw {
namespace {

// A candidate with p <= 2^-8 first needs eight heads of fair coins, then one of probability 2^8 p; sixty-four
// of them share a word per fair coin. A candidate within the reach of 2^-8 costs a word of its own: that is
// "near the top".
constexpr unsigned far_bits = 8;

// Time: two passes over the scores, eight words or fewer per 64 far candidates and one coin in 256 of them;
// one coin per near candidate. So the bound is one coin (some 20 ns) per candidate, reached when all are near
// but not at the top.
std::int64_t permute_and_flip(const WordSource& words, Candidates& candidates, const Decay& decay,
                              std::uint64_t near_reach) {
    candidates.find_top();
    std::vector<std::uint64_t> heads(candidates.groups());
    std::uint64_t count = 0;
    for (std::size_t group = 0; group < candidates.groups(); ++group) {
        const std::uint64_t near = candidates.within(group, near_reach);
        std::uint64_t lucky = candidates.present(group) & ~near;
        for (unsigned i = 0; i < far_bits && lucky != 0; ++i) lucky &= words.next();
        for (std::uint64_t left = near | lucky; left != 0; left &= left - 1) {
            const auto i = static_cast<unsigned>(std::countr_zero(left));
            const unsigned shift = (lucky >> i) & 1 ? far_bits : 0;
            const bool head = decay.coin(words, candidates.distance(64 * group + i), shift);
            heads[group] |= static_cast<std::uint64_t>(head) << i;
        }
        count += static_cast<std::uint64_t>(std::popcount(heads[group]));
    }
    // The top is always heads, so count >= 1. The wanted-th head, in index order:
    std::uint64_t wanted = uniform_below(words, count);
    std::size_t group = 0;
    for (; wanted >= static_cast<std::uint64_t>(std::popcount(heads[group])); ++group)
        wanted -= static_cast<std::uint64_t>(std::popcount(heads[group]));
    std::uint64_t left = heads[group];
    for (; wanted > 0; --wanted) left &= left - 1;
    return static_cast<std::int64_t>(64 * group) + std::countr_zero(left);
}

// Stratified rejection. Class c < 4 holds the candidates with 2^-8c >= p > 2^-8(c+1), class 4 those with
// 2^-32 >= p. A candidate of class c is proposed with probability proportional to 2^-8c (one uniform integer
// names class and place) and accepted with probability 2^8c p: together proportional to p. One of class 0 to
// 3 is accepted with probability above 2^-8 and class 4 is proposed with probability below n 2^-32, so fewer
// than 2^9 proposals are expected.
class ExponentialRound {
  public:
    ExponentialRound(const Candidates& candidates, const std::array<std::uint64_t, 4>& reach)
        : candidates_(candidates),
          reach_(reach),
          blocks_((candidates.groups() + block_groups - 1) / block_groups) {
        for (std::size_t group = 0; group < candidates.groups(); ++group) {
            std::array<std::uint32_t, 5>& block = blocks_[group / block_groups];
            std::uint64_t inner = 0;
            for (unsigned c = 0; c < 5 && inner != candidates.present(group); ++c) {
                const std::uint64_t outer = reached(group, c);
                const auto found = static_cast<std::uint32_t>(std::popcount(outer & ~inner));
                block[c] += found;
                counts_[c] += found;
                inner = outer;
            }
        }
    }

    std::int64_t draw(const WordSource& words, const Decay& decay) const {
        std::uint64_t total = 0;
        for (unsigned c = 0; c < 5; ++c) total += counts_[c] << (32 - far_bits * c);  // below 2^31 * 2^32
        for (;;) {
            std::uint64_t ticket = uniform_below(words, total);
            unsigned c = 0;
            for (; ticket >= counts_[c] << (32 - far_bits * c); ++c)
                ticket -= counts_[c] << (32 - far_bits * c);
            const std::size_t i = member(c, ticket >> (32 - far_bits * c));
            if (decay.coin(words, candidates_.distance(i), far_bits * c)) return static_cast<std::int64_t>(i);
        }
    }

  private:
    static constexpr std::size_t block_groups = 64;

    // The candidates of classes 0 to c.
    std::uint64_t reached(std::size_t group, unsigned c) const {
        return c == 4 ? candidates_.present(group) : candidates_.within(group, reach_[c]);
    }

    // The candidate of class c with `place` others of its class before it.
    std::size_t member(unsigned c, std::uint64_t place) const {
        std::size_t block = 0;
        for (; place >= blocks_[block][c]; ++block) place -= blocks_[block][c];
        for (std::size_t group = block * block_groups;; ++group) {
            std::uint64_t left = reached(group, c) & ~(c == 0 ? 0 : reached(group, c - 1));
            const auto found = static_cast<std::uint64_t>(std::popcount(left));
            if (place >= found) {
                place -= found;
                continue;
            }
            for (; place > 0; --place) left &= left - 1;
            return 64 * group + static_cast<std::size_t>(std::countr_zero(left));
        }
    }

    const Candidates& candidates_;
    const std::array<std::uint64_t, 4>& reach_;
    std::vector<std::array<std::uint32_t, 5>> blocks_;
    std::array<std::uint64_t, 5> counts_{};
};

}  // namespace

std::vector<std::int64_t> select_permute_and_flip(const WordSource& words,
                                                  std::span<const std::int64_t> scores, const Decay& decay,
                                                  std::int64_t k) {
    Candidates candidates(scores);
    const std::uint64_t near_reach = reach_of(decay, far_bits);
    std::vector<std::int64_t> chosen;
    for (; k > 0; --k) {
        chosen.push_back(permute_and_flip(words, candidates, decay, near_reach));
        candidates.remove(chosen.back());
    }
    return chosen;
}

std::vector<std::int64_t> select_exponential(const WordSource& words, std::span<const std::int64_t> scores,
                                             const Decay& decay, std::int64_t k) {
    Candidates candidates(scores);
    std::array<std::uint64_t, 4> reach{};
    for (unsigned c = 0; c < 4; ++c) reach[c] = reach_of(decay, far_bits * (c + 1));
    std::vector<std::int64_t> chosen;
    for (; k > 0; --k) {
        candidates.find_top();
        chosen.push_back(ExponentialRound(candidates, reach).draw(words, decay));
        candidates.remove(chosen.back());
    }
    return chosen;
}

}  // namespace privmw::draw
