// Marginals whose cells are to be rearranged for the records of a call.
#pragma once

#include <utility>

#include "core/moves/records.hpp"

namespace privmw {

constexpr std::size_t alone_below = std::size_t{1} << 17;  // values that one thread rearranges

// The cells of a marginal where they are.
struct CellsInPlace {
    const Wrapping* cells;
    std::size_t stride;  // of the attribute that is drawn
    std::uint32_t others = 0, attributes[6] = {};
    std::size_t strides[6] = {};

    // The first of the cells that a record's other codes (IN, one per attribute) leave.
    const Wrapping* at(const std::uint32_t* codes) const {
        std::size_t place = 0;
        for (std::uint32_t i = 0; i < others; ++i) place += codes[attributes[i]] * strides[i];
        return cells + place;
    }
};

// One of the other attributes of a marginal.
struct Side {
    std::uint32_t slot, size, common;
    std::size_t stride;
};

// A marginal to rearrange.
struct Arranged {
    const Wrapping* cells;
    std::size_t stride;  // of the attribute that is drawn
    std::uint32_t others;
    Side sides[3];  // the rarer ones first
    const Side& last() const { return sides[others - 1]; }
};

inline Arranged arrange(const CellsInPlace& marginal, const MovedRecords& records,
                        const std::vector<std::uint32_t>& sizes) {
    Arranged made{marginal.cells, marginal.stride, marginal.others, {}};
    for (std::uint32_t i = 0; i < marginal.others; ++i) {
        const std::uint32_t a = marginal.attributes[i], slot = records.slot(a);
        made.sides[i] = {slot, sizes[a], records.common(slot), marginal.strides[i]};
    }
    for (std::uint32_t i = 1; i < made.others; ++i)
        for (std::uint32_t k = i; k > 0 && made.sides[k].slot < made.sides[k - 1].slot; --k)
            std::swap(made.sides[k], made.sides[k - 1]);
    return made;
}

}  // namespace privmw
