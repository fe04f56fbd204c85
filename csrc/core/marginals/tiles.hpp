// Dense evaluation: compute every row's cell and add its mass there, in tiles of rows that stay in cache.
//
// Marginals that share all but one attribute are cheaper as one joint: each row adds its mass once, and each
// marginal is the joint with the other attributes summed out.
#pragma once

#include <span>

#include "core/types.hpp"

namespace privmw {

struct TiledMarginal {
    std::uint32_t keeps = 0;  // bit a: whether it keeps column a of the joint
    Mass* sums = nullptr;     // IN and OUT, one per cell: added to
};

// Some columns over some rows; cells in C order, the last column fastest.
struct TiledJoint {
    std::vector<Column> columns;
    std::size_t cells = 1;
    std::vector<TiledMarginal> marginals;
};

// Adds the masses of rows [first, last) to the cells of every marginal.
void add_tiles(std::span<const TiledJoint> joints, const Mass* masses, std::size_t first, std::size_t last);

// The adjoint, one marginal at a time: adds to the sums (IN and OUT, from sums[0]) of rows [first, last) the
// value (IN, one per cell) of their cells.
void add_values(const std::vector<Column>& columns, std::size_t cells, const Wrapping* values,
                std::size_t first, std::size_t last, Wrapping* sums);

}  // namespace privmw
