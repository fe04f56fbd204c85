// exp(-m * unit) for a fixed rational unit and any natural m, and the exact coin of that probability.
// The one place of the library where a random word meets a probability that is not rational.
#pragma once

#include <cstdint>
#include <vector>

#include "draw/natural.hpp"
#include "draw/words.hpp"

namespace privmw::draw {

// The rule of every coin, and the whole of its law: a uniform U in [0, 1) is revealed word by word. After t
// words, of value W, compare W with P = floor(2^(64 t) p): below means U < p, heads; above means U > p,
// tails; equal draws the next word. So heads has probability p exactly, and which words are drawn depends on
// p alone, not on how P was found.
class Decay {
  public:
    Decay(Natural numerator, Natural denominator);  // unit = numerator / denominator > 0

    // Heads with probability 2^shift * exp(-m * unit), which must be at most 1. m = 0 is heads, without a
    // word.
    bool coin(const WordSource& words, Wide m, unsigned shift = 0) const {
        if (m == 0) return true;
        const std::uint64_t word = words.next();
        const Bounds bounds = first_digits(m, shift);
        if (word < bounds.low) return true;
        if (word > bounds.high) return false;
        return settle(words, word, m, shift);
    }

    struct Bounds {
        std::uint64_t low, high;  // low <= floor(2^(64+shift) exp(-m unit)) <= high
    };
    Bounds first_digits(Wide m, unsigned shift) const;

    // floor(2^bits exp(-m unit)), exactly.
    Natural digits(Wide m, std::size_t bits) const;

    const Natural& numerator() const { return numerator_; }
    const Natural& denominator() const { return denominator_; }

  private:
    bool settle(const WordSource& words, std::uint64_t first, Wide m, unsigned shift) const;

    Natural numerator_, denominator_;
    std::uint64_t rate_;  // rate_ <= 2^scale_ * unit / ln 2 < rate_ + 2, and rate_ has 64 bits
    std::int64_t scale_;
};

// The largest v with U < exp(-v * step * unit), for one lazily revealed uniform U: a geometric variable in
// one word. Pr[V >= v] = exp(-v * step * unit), exactly. The decay must outlive it.
class Geometric {
  public:
    Geometric(const Decay& decay, Wide step);
    std::uint64_t operator()(const WordSource& words) const {
        const std::uint64_t word = words.next();
        std::size_t v = 0;  // bounds_[v] belongs to v + 1
        while (word < bounds_[v].low) ++v;
        return word > bounds_[v].high ? v : settle(words, word, v);
    }

  private:
    std::uint64_t settle(const WordSource& words, std::uint64_t first, std::uint64_t passed) const;

    const Decay& decay_;
    Wide step_;
    std::vector<Decay::Bounds> bounds_;  // ends with low = high = 0, which no word passes
};

}  // namespace privmw::draw
