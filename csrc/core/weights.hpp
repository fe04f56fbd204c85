// A distribution on rows: float64 weights for updates, int64 masses for sums.
//
// The mass of a row is its weight times 2^60, rounded to the nearest integer (ties to even). Weights are kept
// so that the total of the masses stays in [2^58, 2^62]; an answer is a cell's mass over the total, so
// renormalising is no pass over rows. Only single multiplications and integer sums happen here: every
// backend, order and number of threads gives the same bits.
#pragma once

#include <span>

#include "core/types.hpp"

namespace privmw {

constexpr int mass_bits = 60;
constexpr Mass least_total = Mass{1} << 58;
constexpr Mass most_total = Mass{1} << 62;
// Far below any mass, far above the smallest double: a row there answers nothing and can still come back.
constexpr double lightest_weight = 0x1p-1000;

// masses: OUT, one per row, of weights whose total is in range. Returns the total; throws
// std::invalid_argument if it is not.
Mass to_masses(const double* weights, std::size_t rows, int threads, Mass* masses);

// Multiplies weights (IN and OUT) by the power of two that brings the total near 2^60. Returns the total. A
// row of weight zero stays at zero; no other row is lost to zero. Throws std::invalid_argument, before
// anything is written, unless all are finite, none is negative and one is above zero.
Mass rescale(double* weights, std::size_t rows, int threads);

struct Update {
    Mass total = 0;
    bool rescaled = false;  // the total had left its range: every row changed, and `changes` is of no use
};

// Multiplies the weights (IN and OUT) of `rows` by factor, from 2^-32 to 2^32.
// `total` is the total of the masses before; changes: OUT, one per given row, what their masses gain. Zeros
// as in rescale; nothing overflows. Throws std::invalid_argument if the rows were not in scale or weigh more
// than `total`; the weights are then of no use.
Update multiply(double* weights, std::size_t all_rows, std::span<const Row> rows, double factor, Mass total,
                int threads, Mass* changes);

}  // namespace privmw
