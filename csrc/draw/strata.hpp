// The candidates of one selection in strata of like weight, found in one pass over the scores; k choices then
// cost as much as k draws. Draws nothing.
//
// Let `floor` be the k-th largest score. While fewer than k are taken, the top is at least `floor`, so
// weights are bounded once and for all: the crown, stratum 0, lists the candidates above the floor (fewer
// than k); strata 1 to 4 hold those with 2^-8(s-1) >= exp(-(floor - score) unit) > 2^-8s, and stratum 5 the
// rest.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <span>

#include "draw/decay.hpp"
#include "draw/digits.hpp"
#include "draw/errors.hpp"
#include "wiped.hpp"

namespace privmw::draw {

// The largest distance with exp(-distance * unit) > 2^-halvings, or the largest there can be.
inline std::uint64_t reach_of(const Decay& decay, unsigned halvings) {
    const Natural beyond = halving_distance(decay.numerator(), decay.denominator(), halvings);
    return beyond.bit_length() > 64 ? std::numeric_limits<std::uint64_t>::max() : beyond.low_word() - 1;
}

inline constexpr unsigned stratum_bits = 8, strata_count = 6, most_bits = 32;

template <class Scores>
class Strata {
  public:
    // excluded: ascending, distinct; at least k candidates are left without them.
    Strata(const Scores& scores, std::span<const std::int64_t> excluded, const Decay& decay, std::int64_t k)
        : scores_(scores), excluded_(excluded), blocks_((scores.size() + block_size - 1) / block_size) {
        for (unsigned i = 0; i < reach_.size(); ++i) reach_[i] = reach_of(decay, stratum_bits * (i + 1));
        for (unsigned i = 0; k > 1 && i < most_bits; ++i) falls_[i] = reach_of(decay, i + 1);
        find_extremes();
        find_floor(static_cast<std::size_t>(k));
        find_crown();
        count_strata();
        find_top();
    }

    std::uint64_t left(unsigned stratum) const { return counts_[stratum] - taken_[stratum].size(); }

    // In the stratum, no candidate's weight exp(-(top - score) unit) is above 2^-bits.
    unsigned bits(unsigned stratum) const {
        return stratum == 0 ? 0 : std::min(stratum_bits * (stratum - 1) + fallen_, most_bits);
    }

    struct Pick {
        unsigned stratum;
        std::uint64_t place;  // among all of the stratum, in index order, also those taken
        std::size_t index;
        std::uint64_t distance;  // from the top
    };

    // The candidate with `rank` others of its stratum before it, of those that are not taken.
    Pick pick(unsigned stratum, std::uint64_t rank) const {
        for (const std::uint64_t place : taken_[stratum]) rank += place <= rank;
        const std::size_t index = stratum == 0 ? crown_[rank] : member(stratum, rank);
        return {stratum, rank, index, distance(top_, scores_[index])};
    }
    void take(const Pick& pick) {
        auto& places = taken_[pick.stratum];
        places.insert(std::lower_bound(places.begin(), places.end(), pick.place), pick.place);
    }
    void put_back(const Pick& pick) {
        auto& places = taken_[pick.stratum];
        places.erase(std::lower_bound(places.begin(), places.end(), pick.place));
    }

    // The largest score that is left, once choices were taken: of the crown, or the floor.
    void find_top() {
        top_ = floor_;
        std::size_t next = 0;
        for (std::size_t place = 0; place < crown_.size(); ++place) {
            if (next < taken_[0].size() && taken_[0][next] == place)
                ++next;
            else
                top_ = std::max(top_, scores_[crown_[place]]);
        }
        const std::uint64_t above = distance(top_, floor_);
        for (fallen_ = 0; above > 0 && fallen_ < most_bits && above > falls_[fallen_];) ++fallen_;
    }

  private:
    static constexpr std::size_t block_size = 512;

    struct Block {
        // Of none, of no consequence.
        std::int64_t largest = std::numeric_limits<std::int64_t>::min();
        std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
        std::array<std::uint32_t, strata_count> before{};  // how many of each stratum earlier blocks hold
    };

    // The subtraction modulo 2^64 is the true difference even where int64 would overflow.
    static std::uint64_t distance(std::int64_t above, std::int64_t score) {
        return static_cast<std::uint64_t>(above) - static_cast<std::uint64_t>(score);
    }

    unsigned stratum_of(std::int64_t score) const {
        if (score > floor_) return 0;
        unsigned stratum = 1;
        for (const std::uint64_t reach : reach_) stratum += distance(floor_, score) > reach;
        return stratum;
    }

    // visit(first, last) for every run of candidates between those excluded.
    template <class Visit>
    void runs(std::size_t block, const Visit& visit) const {
        std::size_t first = block * block_size;
        const std::size_t end = std::min(first + block_size, scores_.size());
        if (!excluded_.empty()) {
            auto next =
                std::lower_bound(excluded_.begin(), excluded_.end(), static_cast<std::int64_t>(first));
            for (; next != excluded_.end() && static_cast<std::size_t>(*next) < end; ++next) {
                if (first < static_cast<std::size_t>(*next)) visit(first, static_cast<std::size_t>(*next));
                first = static_cast<std::size_t>(*next) + 1;
            }
        }
        if (first < end) visit(first, end);
    }

    // The one pass over all scores.
    void find_extremes() {
        for (std::size_t block = 0; block < blocks_.size(); ++block)
            runs(block, [&](std::size_t first, std::size_t last) {
                const Extremes found = extremes_of(scores_, first, last);
                blocks_[block].smallest = std::min(blocks_[block].smallest, found.smallest);
                blocks_[block].largest = std::max(blocks_[block].largest, found.largest);
            });
    }

    // The k-th largest score: of the blocks' largest if k is 1, else among blocks that hold one of the k.
    void find_floor(std::size_t k) {
        Wiped<std::int64_t> tops;
        for (const Block& block : blocks_) tops.push_back(block.largest);
        const std::size_t at_most = std::min(k, tops.size()) - 1;
        std::nth_element(tops.begin(), tops.begin() + static_cast<std::ptrdiff_t>(at_most), tops.end(),
                         std::greater<>());
        floor_ = tops[at_most];
        if (k == 1) return;
        const bool bounded = k <= tops.size();  // then the k-th largest score is not below this floor
        std::priority_queue<std::int64_t, Wiped<std::int64_t>, std::greater<>> best;
        for (std::size_t block = 0; block < blocks_.size(); ++block) {
            const std::int64_t largest = blocks_[block].largest;
            if ((bounded && largest < floor_) || (best.size() == k && largest <= best.top())) continue;
            runs(block, [&](std::size_t first, std::size_t last) {
                for (std::size_t i = first; i < last; ++i) {
                    const std::int64_t score = scores_[i];
                    if (best.size() == k && score <= best.top()) continue;
                    if (best.size() == k) best.pop();
                    best.push(score);
                }
            });
        }
        floor_ = best.top();
    }

    void find_crown() {
        for (std::size_t block = 0; block < blocks_.size(); ++block) {
            if (blocks_[block].largest <= floor_) continue;
            runs(block, [&](std::size_t first, std::size_t last) {
                for (std::size_t i = first; i < last; ++i)
                    if (scores_[i] > floor_) crown_.push_back(i);
            });
        }
    }

    // Of a block whose largest and smallest share a stratum, no score is looked at again.
    void count_strata() {
        for (Block& block : blocks_) {
            std::copy(counts_.begin(), counts_.end(), block.before.begin());
            const unsigned best = stratum_of(block.largest), worst = stratum_of(block.smallest);
            runs(static_cast<std::size_t>(&block - blocks_.data()), [&](std::size_t first, std::size_t last) {
                if (best == worst)
                    counts_[best] += last - first;
                else if (best > 0)
                    count_run(first, last, best, worst);
                else
                    for (std::size_t i = first; i < last; ++i) ++counts_[stratum_of(scores_[i])];
            });
        }
    }

    // A run of no member of the crown, all in strata from best to worst.
    void count_run(std::size_t first, std::size_t last, unsigned best, unsigned worst) {
        std::array<std::uint64_t, 4> beyond{};
        const std::span<const std::uint64_t> edges(&reach_[best - 1], worst - best);
        for (std::size_t i = first; i < last; ++i) {
            const std::uint64_t below = distance(floor_, scores_[i]);
            for (std::size_t j = 0; j < edges.size(); ++j) beyond[j] += below > edges[j];
        }
        counts_[best] += last - first - beyond[0];
        for (std::size_t j = 0; j < edges.size(); ++j)
            counts_[best + 1 + j] += beyond[j] - (j + 1 < edges.size() ? beyond[j + 1] : 0);
    }

    // The candidate of the stratum with `place` others before it, taken or not.
    std::size_t member(unsigned stratum, std::uint64_t place) const {
        const auto after = std::partition_point(blocks_.begin(), blocks_.end(), [&](const Block& block) {
            return block.before[stratum] <= place;
        });
        const auto block = static_cast<std::size_t>(after - blocks_.begin()) - 1;
        place -= blocks_[block].before[stratum];
        std::size_t found = 0;
        bool searching = true;
        runs(block, [&](std::size_t first, std::size_t last) {
            for (std::size_t i = first; searching && i < last; ++i) {
                if (stratum_of(scores_[i]) != stratum) continue;
                found = i;
                searching = place-- > 0;
            }
        });
        return found;
    }

    const Scores scores_;
    std::span<const std::int64_t> excluded_;
    std::array<std::uint64_t, 4> reach_{};
    std::array<std::uint64_t, most_bits> falls_{};  // as reach_, bit by bit; where k = 1 none is needed
    Wiped<Block> blocks_;
    Wiped<std::size_t> crown_;  // indices, ascending
    std::array<std::uint64_t, strata_count> counts_{};
    std::array<Wiped<std::uint64_t>, strata_count> taken_;  // places, ascending
    std::int64_t floor_ = 0, top_ = 0;
    unsigned fallen_ = 0;  // exp(-(top - floor) unit) <= 2^-fallen
};

}  // namespace privmw::draw
