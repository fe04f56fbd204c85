// The effects that each row lists (effects.hpp), and sweeps over rows. Integers are added modulo 2^64.
#pragma once

#include <span>

#include "core/power_of_two.hpp"
#include "core/types.hpp"

namespace privmw {

// Without number 0, which every row has. Numbers below 2^16 take half the bytes that a sweep reads. Lists are
// padded to a multiple of `step` with `padding`, whose value is 0.
struct RowEffects {
    static constexpr std::size_t step = 4;
    static constexpr std::uint32_t padding = 1;

    // potentials: OUT, one per given row, the sum of its effects' values (IN, one per effect) in a unit.
    void potentials(std::span<const Row> rows, const Wrapping* values, PowerOfTwo unit,
                    double* potentials) const;
    // Adds masses (IN, one per given row) to the sums of the row's effects.
    void sum(std::span<const Row> rows, const Mass* masses, Wrapping* sums) const;

    std::size_t bytes() const;

    std::vector<std::int64_t> low_starts{0}, high_starts{0};  // one per row, and the end
    std::vector<std::uint16_t> low;
    std::vector<std::uint32_t> high;
};

}  // namespace privmw
