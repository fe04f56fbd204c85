// A distribution on rows: float64 weights for updates, int64 masses for sums.
//
// The mass of a row is its weight times 2^60, rounded to the nearest integer (ties to even). Weights are kept
// so that the total of the masses stays in [2^58, 2^62]; an answer is a cell's mass over the total, so
// renormalising is no pass over rows. Only single multiplications and integer sums happen here: every
// backend, order and number of threads gives the same bits. The rows may be one shard of many: decisions that
// need the total of all shards are made in privmw.kernels.weights.
#pragma once

#include <span>

#include "core/types.hpp"

namespace privmw {

constexpr Mass most_total = Mass{1} << 62;
// Far below any mass, far above the smallest double: such a row adds nothing to answers and can recover.
constexpr double lightest_weight = 0x1p-1000;

using Wide = unsigned __int128;  // a total of masses that is not yet known to be in range

// The largest weight, 0 if there is none; NaN unless all are finite and none is negative.
double heaviest(const double* weights, std::size_t rows, int threads);

// The total of the masses of weights * 2^exponent, each of which must be below 8.
Wide total_mass(const double* weights, std::size_t rows, int exponent, int threads);

// Multiplies weights (IN and OUT) by 2^exponent. A row of weight zero stays at zero; no other row becomes
// zero.
void shift(double* weights, std::size_t rows, int exponent, int threads);

// masses: OUT, one per row. Returns their total; or most_total + 1 if it is more than most_total or a weight
// is not from 0 to 4, and the masses are then meaningless.
Mass to_masses(const double* weights, std::size_t rows, int threads, Mass* masses);

// masses: OUT, one per row, weight * value * 2^exponent to the nearest integer, which must be below 2^63 in
// absolute value.
void signed_masses(const double* weights, const double* values, std::size_t rows, int exponent, int threads,
                   Mass* masses);

// The total of the absolute values of masses.
Wide total_magnitude(const Mass* masses, std::size_t rows, int threads);

// What an update did to the masses of its rows.
struct Gains {
    Mass before = 0;  // the total of their masses before
    Mass gained = 0;  // the sum of the changes, modulo 2^64
};

// Multiplies the weights (IN and OUT) of `rows` by factor, from 2^-32 to 2^32; zeros as in shift.
// changes: OUT, one per given row, of their masses; meaningless where a weight reaches 7.75 or more.
// Throws std::invalid_argument unless the weights of the rows were from 0 to 4 and their masses total at most
// most_total; the weights are then meaningless.
Gains multiply(double* weights, std::span<const Row> rows, double factor, int threads, Mass* changes);

}  // namespace privmw
