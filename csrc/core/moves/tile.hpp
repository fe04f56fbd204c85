// A tile: up to 64 records, and a bit for each.
#pragma once

#include "core/types.hpp"

namespace privmw {

constexpr std::size_t tile_records = 64;  // the bits of a word

// Records, one column after the other. A slot is the place of an attribute among those that are needed.
struct Tile {
    const std::uint32_t* codes;     // IN, slots x tile_records
    const std::uint64_t* uncommon;  // IN, one a slot: the records with another value than the common one
};

// visit(r) for each of the lowest `count` bits that is set.
template <class Visit>
inline __attribute__((always_inline)) void each_bit(std::uint64_t bits, std::size_t count, Visit&& visit) {
    const std::uint64_t all = ~std::uint64_t{0} >> (tile_records - count);
    bits &= all;
    if (bits == all)
        for (std::size_t r = 0; r < count; ++r) visit(r);
    else
        for (; bits; bits &= bits - 1) visit(static_cast<std::size_t>(__builtin_ctzll(bits)));
}

}  // namespace privmw
