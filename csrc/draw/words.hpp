// Where random bits come from: any generator seen as a source of 64-bit words. Knows no Python and no law but
// the uniform.
#pragma once

#include <cstdint>
#include <stdexcept>

#include "draw/natural.hpp"

namespace privmw::draw {

struct WordSource {
    void* state;
    std::uint64_t (*next_word)(void* state);

    std::uint64_t next() const { return next_word(state); }
};

// A comparison that this many words leave open (probability 2^-512) means a generator that is stuck.
inline constexpr std::size_t longest_comparison = 8;

// Where a proposal is refused with probability below 3/5, this many refusals in a row have a probability
// below 2^-3000.
inline constexpr int most_refusals = 4096;

class StuckGenerator : public std::runtime_error {
  public:
    StuckGenerator()
        : std::runtime_error("bit_generator (its words left a draw without an end) must give random words") {}
};

// Uniform on 0 .. bound-1, bound >= 1. A word w falls to floor(w * bound / 2^64); of the 2^64 words, those
// whose product has a low half below 2^64 mod bound are refused, which leaves floor(2^64 / bound) for every
// result.
inline std::uint64_t uniform_below(const WordSource& words, std::uint64_t bound) {
    if (bound == 1) return 0;
    Wide product = static_cast<Wide>(words.next()) * bound;
    if (static_cast<std::uint64_t>(product) < bound) {
        const std::uint64_t refused = (0 - bound) % bound;
        for (int tries = 0; static_cast<std::uint64_t>(product) < refused; ++tries) {
            if (tries == most_refusals) throw StuckGenerator();
            product = static_cast<Wide>(words.next()) * bound;
        }
    }
    return static_cast<std::uint64_t>(product >> 64);
}

}  // namespace privmw::draw
