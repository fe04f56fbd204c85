#include "core/tiles.hpp"

#include <algorithm>

namespace privmw {

namespace {

constexpr std::size_t tile = 4096;  // rows: the masses of a tile fill 32 KB
constexpr std::size_t copies =
    4;  // neighbouring rows often share a cell; four copies of it need not wait in line
constexpr std::size_t most_copied_cells = 2048;

// index[i] = index[i] * size + codes[i], cell numbers in C order. In 16 bits the baseline instruction set
// multiplies eight at a time.
template <class Index, class Code>
void append(Index* __restrict index, const Code* __restrict codes, Index size, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
        index[i] = static_cast<Index>(static_cast<Index>(index[i] * size) + static_cast<Index>(codes[i]));
}

// The common case in one pass: three columns of bytes.
void index_three(std::uint16_t* __restrict index, const std::uint8_t* __restrict a,
                 const std::uint8_t* __restrict b, const std::uint8_t* __restrict c, std::uint16_t size_b,
                 std::uint16_t size_c, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        const auto ab = static_cast<std::uint16_t>(static_cast<std::uint16_t>(a[i] * size_b) + b[i]);
        index[i] = static_cast<std::uint16_t>(static_cast<std::uint16_t>(ab * size_c) + c[i]);
    }
}

template <class Index>
void index_cells(Index* index, const std::vector<Column>& columns, std::size_t row, std::size_t count) {
    if constexpr (sizeof(Index) == 2) {
        if (columns.size() == 3 && columns[0].width == 1 && columns[1].width == 1 && columns[2].width == 1) {
            const auto codes = [&](int i) {
                return static_cast<const std::uint8_t*>(columns[i].codes) + row;
            };
            index_three(index, codes(0), codes(1), codes(2), static_cast<std::uint16_t>(columns[1].size),
                        static_cast<std::uint16_t>(columns[2].size), count);
            return;
        }
    }
    std::fill_n(index, count, Index{0});
    for (const Column& column : columns)
        with_codes(column, [&](const auto* codes) {
            append(index, codes + row, static_cast<Index>(column.size), count);
        });
}

template <class Index>
void scatter(const Index* index, const Mass* masses, std::size_t count, Mass* sums) {
    for (std::size_t i = 0; i < count; ++i) sums[index[i]] += masses[i];
}

template <class Index>
void scatter_copies(const Index* index, const Mass* masses, std::size_t count, Mass* sums,
                    std::size_t cells) {
    Mass* const second = sums + cells;
    Mass* const third = second + cells;
    Mass* const fourth = third + cells;
    std::size_t i = 0;
    for (; i + copies <= count; i += copies) {
        sums[index[i]] += masses[i];
        second[index[i + 1]] += masses[i + 1];
        third[index[i + 2]] += masses[i + 2];
        fourth[index[i + 3]] += masses[i + 3];
    }
    for (; i < count; ++i) sums[index[i]] += masses[i];
}

template <class Index>
void add_one_tile(const TiledMarginal& marginal, const Mass* masses, std::size_t row, std::size_t count,
                  Mass* copied) {
    alignas(64) Index index[tile];
    index_cells(index, marginal.columns, row, count);
    if (copied)
        scatter_copies(index, masses + row, count, copied, marginal.cells);
    else
        scatter(index, masses + row, count, marginal.sums);
}

}  // namespace

void add_tiles(std::span<const TiledMarginal> marginals, const Mass* masses, std::size_t first,
               std::size_t last) {
    std::vector<std::size_t> copy_starts(marginals.size() + 1);
    for (std::size_t m = 0; m < marginals.size(); ++m) {
        // Copies pay only where there are many more rows than cells to clear and to merge.
        const bool copied = marginals[m].cells <= std::min(most_copied_cells, (last - first) / 8);
        copy_starts[m + 1] = copy_starts[m] + (copied ? copies * marginals[m].cells : 0);
    }
    std::vector<Mass> scratch(copy_starts.back());
    for (std::size_t row = first; row < last; row += tile) {
        const std::size_t count = std::min(tile, last - row);
        for (std::size_t m = 0; m < marginals.size(); ++m) {
            const TiledMarginal& marginal = marginals[m];
            Mass* copied = copy_starts[m + 1] > copy_starts[m] ? scratch.data() + copy_starts[m] : nullptr;
            if (marginal.cells <= 0x10000)
                add_one_tile<std::uint16_t>(marginal, masses, row, count, copied);
            else if (marginal.cells <= 0xffffffffULL)
                add_one_tile<std::uint32_t>(marginal, masses, row, count, copied);
            else
                add_one_tile<std::uint64_t>(marginal, masses, row, count, copied);
        }
    }
    for (std::size_t m = 0; m < marginals.size(); ++m) {
        const std::size_t cells = marginals[m].cells;
        for (std::size_t from = copy_starts[m]; from < copy_starts[m + 1]; from += cells)
            for (std::size_t c = 0; c < cells; ++c) marginals[m].sums[c] += scratch[from + c];
    }
}

}  // namespace privmw
