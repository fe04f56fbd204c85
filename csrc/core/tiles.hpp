// Dense evaluation: every row's cell is computed and its mass added there, in tiles of rows that stay in
// cache.
#pragma once

#include <span>

#include "core/types.hpp"

namespace privmw {

// A marginal over some rows: cells in C order, the last column fastest.
struct TiledMarginal {
    std::vector<Column> columns;
    std::size_t cells = 1;
    Mass* sums = nullptr;  // IN and OUT, one per cell: added to
};

// Adds the masses of rows [first, last) to the cells of every marginal.
void add_tiles(std::span<const TiledMarginal> marginals, const Mass* masses, std::size_t first,
               std::size_t last);

}  // namespace privmw
