// The dtype contract with numpy, in one place.
//   codes    uint8, uint16 or uint32, one contiguous array per attribute, each below the attribute's size
//   rows     uint32 row numbers (so a table has fewer than 2^32 rows)
//   masses   int64 on one fixed-point scale; sums of their absolute values stay at or below 2^62
//   weights  float64
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace privmw {

using Row = std::uint32_t;
using Mass = std::int64_t;
using Wrapping = std::uint64_t;  // an int64 in sums modulo 2^64

inline constexpr double infinity = std::numeric_limits<double>::infinity();

struct Column {
    const void* codes = nullptr;  // IN, one per row
    int width = 1;                // bytes of a code: 1, 2 or 4
    std::uint32_t size = 1;       // codes are below it
};

// Calls visit(pointer to the codes) with the pointer's real type.
template <class Visit>
auto with_codes(const Column& column, Visit&& visit) {
    switch (column.width) {
        case 1:
            return visit(static_cast<const std::uint8_t*>(column.codes));
        case 2:
            return visit(static_cast<const std::uint16_t*>(column.codes));
        default:
            return visit(static_cast<const std::uint32_t*>(column.codes));
    }
}

// Codes owned here instead of by the caller.
struct OwnedColumn {
    std::vector<std::uint32_t> storage;  // 32-bit words, read at the column's width
    Column column;
};

// The codes of the given rows, in that order.
OwnedColumn gather(const Column& column, const Row* rows, std::size_t count);

}  // namespace privmw
