// Sweeps over a tile of records: add scores, draw values; compiled per kind of processor. Scores are integers
// modulo 2^64, and floating-point operations are neither fused nor reordered: every processor gives the same
// bits.
#pragma once

#include "core/moves.hpp"
#include "core/moves/tile.hpp"
#include "core/power_of_two.hpp"

namespace privmw {

// The marginals of the attribute that is drawn, rearranged: a row holds the values of a cell's other codes,
// one for each value of the attribute but the first, from which they are counted (sums are at most 2^61, so
// differences fit). A marginal of three is split at the common value b0 of the attribute b that is uncommon
// in fewer records: f(v, b, c) is f(v, b0, c), which is added to the rows of c, plus f(v, b, c) - f(v, b0,
// c), which only records with an uncommon b add. The rows of c are split at their common value too.
struct ScoreTables {
    struct Triple {
        std::uint32_t slot, size;  // of the other partner
        const Wrapping* rows;      // one a pair of values
    };
    struct Partner {
        std::uint32_t slot;
        const Wrapping* rows;    // one a value, summed over marginals; null if there are none
        std::size_t begin, end;  // its triples, whose other partner is uncommon more often
    };
    std::size_t stride;     // of rows, from row_stride
    const Wrapping* alone;  // the row that all records add
    std::vector<Partner> partners;
    std::vector<Triple> triples;
};

// Short rows are added without a loop, others four values at a time.
constexpr std::size_t row_stride(std::size_t size) {
    return size <= 3 ? size - 1 : (size + 2) / 4 * 4;
}

// The draws of one attribute, and memory for them.
struct Drawing {
    const Weighing& weighing;
    PowerOfTwo power;
    const std::uint64_t* words;  // IN, one per record
    Wrapping* scores;            // drawn_together(size) x size, of the attribute
    double* sums;                // as many
};

// Records per block: fewer if their scores would take much memory.
constexpr std::size_t drawn_together(std::size_t size) {
    return size <= 128 ? 16 : 4;
}

struct MoveSweeps {
    // scores: OUT, stride a record: of those from `first` of the tile.
    void (*add)(const ScoreTables& tables, const Tile& tile, std::size_t first, std::size_t count,
                Wrapping* scores);
    // codes: OUT, one per record. scores: IN, stride a record; null: all are zero. first: of all records.
    void (*draw)(const Wrapping* scores, std::size_t stride, const Drawing& drawing, std::size_t first,
                 std::size_t count, std::uint32_t* codes);
};

// The fastest version that the processor supports.
const MoveSweeps& move_sweeps();

#ifdef PRIVMW_TILES_AVX2
MoveSweeps move_sweeps_avx2();
#endif

}  // namespace privmw
