// How each marginal of a workload is evaluated, and the marginals that it needs first.
//
// Tiles: all rows, one cell per row. Always possible, and best if no value is common.
//
// Rare: only rows whose rarest attribute is uncommon. The cells of its common value are the parent, the
// marginal without that attribute, less the uncommon ones.
//
// Lists: all pairs of uncommon values at once (lists.hpp); within all rows for orders 1 and 2, within the
// rows of each uncommon value of the rarest attribute for order 3, whose common value again comes from the
// parent.
//
// Parents that are not in the workload are added to the plan if they save more than they cost (costs.hpp).
#pragma once

#include <span>

#include "core/columns.hpp"

namespace privmw {

// A workload as arrays: marginal j has attributes[starts[j]] to attributes[starts[j + 1] - 1], ascending.
struct MarginalList {
    std::vector<std::uint32_t> attributes;
    std::vector<std::size_t> starts;
    std::size_t size() const { return starts.size() - 1; }
};

enum class Way : std::uint8_t { tiles, rare, lists };

struct PlannedMarginal {
    std::vector<std::uint32_t> attributes;
    std::size_t cells = 1;
    std::ptrdiff_t sums = -1;  // offset in the caller's sums, or -1
    std::ptrdiff_t kept = -1;  // index among the parents, or -1
    Way way = Way::tiles;
    int axis = -1;               // of the rarest attribute
    std::ptrdiff_t parent = -1;  // the marginal without it
};

// Marginals that tiles evaluate as one (tiles.hpp).
struct PlannedJoint {
    std::vector<std::uint32_t> attributes;  // ascending
    std::vector<std::size_t> marginals;
    std::vector<std::uint32_t> keeps;  // one per marginal: bit i, whether it has attributes[i]
};

// What one thread evaluates at a time.
struct PlannedTask {
    Way way = Way::tiles;
    std::vector<PlannedJoint> joints;    // of tiles and of rare
    std::vector<std::size_t> marginals;  // of lists
    std::size_t list = 0;                // of lists: its number
    std::uint32_t rarest = 0;            // of rare, and of lists of order 3
    int first_second = 0;                // of lists: positions of the pairs' first attribute
    int last_second = 0;
    std::size_t part = 0, parts = 1;  // of tiles: which part of the rows
    double cost = 0;
};

struct Plan {
    std::vector<PlannedMarginal> marginals;
    std::vector<std::vector<PlannedTask>> stages;  // a stage needs parents from earlier ones
    std::size_t requested = 0;                     // marginals of the caller, which come first
    std::size_t cells = 0;                         // of the caller
    std::size_t kept_cells = 0;
    std::size_t lists = 0;     // tasks of way lists
    double cost = 0;           // of an evaluation of all rows
    double cost_of_cells = 0;  // the part of it that does not depend on rows
};

// A marginal's cells seen around its axis: before x size x after.
struct Slabs {
    std::size_t before = 1, size = 1, after = 1;
};

Slabs slabs(const Columns& columns, const PlannedMarginal& marginal);

Plan make_plan(const Columns& columns, const MarginalList& workload);

}  // namespace privmw
