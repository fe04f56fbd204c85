// Approximate costs of the ways of evaluating marginals, in nanoseconds on one core. They affect the time of
// an evaluation, never its result.
#pragma once

#include "core/columns.hpp"

namespace privmw {

namespace costs {

// A row is added to a joint in tile_row; a joint serves about two three-way marginals, and more two-way ones,
// whose cells are fewer.
constexpr double tile_row = 0.85, row_of_pair = 0.25, row_of_more = 0.5, row_of_wide = 2.5;
constexpr double tile_cell = 1.0, joined_cell = 1.5;
constexpr double rare_gather = 0.1, rare_cell = 2.0;
constexpr double list_pair = 0.75, list_row = 6.0, list_cell = 2.0, list_clear = 0.3;

}  // namespace costs

// The number of pairs of ids that lists would visit, estimated from evenly spaced rows.
struct PairStatistics {
    Wiped<double> within_all;           // by position of the pair's first attribute
    std::vector<Wiped<double>> within;  // [position of the rarest][position of the pair's first]
};

PairStatistics sample_pairs(const Columns& columns);

// The number of cells of the lists' sums for pairs whose first attribute is at positions [first, last).
double pair_cells(const IdLayout& layout, std::size_t first, std::size_t last);

}  // namespace privmw
