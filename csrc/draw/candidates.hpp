// The candidates of one selection: scores, which of them are still in, and their distances from the top.
// Private to the selection room; draws nothing.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "draw/decay.hpp"
#include "draw/digits.hpp"

namespace privmw::draw {

class Candidates {
  public:
    explicit Candidates(std::span<const std::int64_t> scores)
        : scores_(scores), groups_((scores.size() + 63) / 64), present_(groups_, ~std::uint64_t{0}) {
        if (scores.size() % 64 != 0) present_.back() = (std::uint64_t{1} << (scores.size() % 64)) - 1;
    }

    std::size_t size() const { return scores_.size(); }
    std::size_t groups() const { return groups_; }
    std::uint64_t present(std::size_t group) const { return present_[group]; }
    bool contains(std::size_t i) const { return (present_[i / 64] >> (i % 64)) & 1; }
    void remove(std::int64_t i) {
        present_[static_cast<std::size_t>(i) / 64] &= ~(std::uint64_t{1} << (i % 64));
    }

    // The first candidate of the largest score, which distance() then counts from.
    std::size_t find_top() {
        top_ = std::numeric_limits<std::int64_t>::min();
        for (std::size_t group = 0; group < groups_; ++group) {
            const std::size_t first = 64 * group;
            if (present_[group] == ~std::uint64_t{0}) {
                std::int64_t best = scores_[first];
                for (std::size_t i = 1; i < 64; ++i)
                    best = best < scores_[first + i] ? scores_[first + i] : best;
                top_ = top_ < best ? best : top_;
            } else {
                for (std::uint64_t left = present_[group]; left != 0; left &= left - 1) {
                    const std::int64_t score =
                        scores_[first + static_cast<std::size_t>(std::countr_zero(left))];
                    top_ = top_ < score ? score : top_;
                }
            }
        }
        std::size_t i = 0;
        while (scores_[i] != top_ || !contains(i)) ++i;
        return i;
    }

    // top - score, below 2^64: the subtraction modulo 2^64 is the true difference even where int64 would
    // overflow.
    std::uint64_t distance(std::size_t i) const {
        return static_cast<std::uint64_t>(top_) - static_cast<std::uint64_t>(scores_[i]);
    }

    // Bit i of the result: candidate i of the group is present and at most `reach` from the top.
    std::uint64_t within(std::size_t group, std::uint64_t reach) const {
        const std::size_t first = 64 * group, count = size() - first < 64 ? size() - first : 64;
        std::uint64_t mask = 0;
        for (std::size_t i = 0; i < count; ++i)
            mask |= static_cast<std::uint64_t>(distance(first + i) <= reach) << i;
        return mask & present_[group];
    }

  private:
    std::span<const std::int64_t> scores_;
    std::size_t groups_;
    std::vector<std::uint64_t> present_;
    std::int64_t top_ = 0;
};

// The largest distance with exp(-distance * unit) > 2^-halvings, or the largest there can be.
inline std::uint64_t reach_of(const Decay& decay, unsigned halvings) {
    const Natural beyond = halving_distance(decay.numerator(), decay.denominator(), halvings);
    return beyond.bit_length() > 64 ? std::numeric_limits<std::uint64_t>::max() : beyond.low_word() - 1;
}

}  // namespace privmw::draw
