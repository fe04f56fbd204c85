// Errors of answers as integers, |count 2^bits - rint(answer whole)|, each computed on access, so that no
// array of secret scores is ever written. Draws nothing.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

namespace privmw::draw {

// Require counts from 0 to whole / 2^bits, |answer * whole| below 2^53, equal lengths. The product and rint
// are IEEE's (no contraction, ties to even), so these are numpy's integers to the bit.
struct Errors {
    std::span<const std::int64_t> counts;  // one per cell
    std::span<const double> answers;       // one per cell
    double whole;
    unsigned bits;

    std::size_t size() const { return counts.size(); }

    // Unsigned, so that violated requirements give a wrong number, not undefined behaviour.
    std::int64_t operator[](std::size_t i) const {
        const auto target = static_cast<std::uint64_t>(std::llrint(answers[i] * whole));
        const auto error =
            static_cast<std::int64_t>((static_cast<std::uint64_t>(counts[i]) << bits) - target);
        return error < 0 ? static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(error)) : error;
    }
};

struct Extremes {
    std::int64_t smallest, largest;
};

// Of scores[first .. last), first < last; for stored scores and for errors.
Extremes extremes_of(std::span<const std::int64_t> scores, std::size_t first, std::size_t last);
Extremes extremes_of(const Errors& errors, std::size_t first, std::size_t last);

// The largest error of each marginal: cells starts[j] .. starts[j + 1), none empty.
void largest_errors(const Errors& errors, std::span<const std::int64_t> starts, std::span<std::int64_t> out);

}  // namespace privmw::draw
