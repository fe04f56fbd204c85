// Sweeps over rows and the effects that each lists, for the processor at hand. Integers are added modulo
// 2^64: every processor has the same bits.
#pragma once

#include <span>

#include "core/power_of_two.hpp"
#include "core/types.hpp"

namespace privmw {

// The effects that each row lists, besides number 0, which every row has: numbers below 2^16 in half the
// bytes, which is what a sweep has to read, and the others.
struct RowEffects {
    std::vector<std::int64_t> low_starts{0}, high_starts{0};  // one per row, and the end
    std::vector<std::uint16_t> low;
    std::vector<std::uint32_t> high;
};

struct EffectSweeps {
    // potentials: OUT, one per given row, the sum of its effects' values (IN, one per effect) in a unit.
    void (*potentials)(const RowEffects& lists, std::span<const Row> rows, const Wrapping* values,
                       PowerOfTwo unit, double* potentials);
    // Adds masses (IN, one per given row) to the sums of the row's effects.
    void (*sum)(const RowEffects& lists, std::span<const Row> rows, const Mass* masses, Wrapping* sums);
};

// The fastest that the processor can run.
const EffectSweeps& effect_sweeps();

#ifdef PRIVMW_TILES_AVX2
EffectSweeps effect_sweeps_avx2();
#endif

}  // namespace privmw
