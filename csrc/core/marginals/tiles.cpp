#include "core/marginals/tiles.hpp"

#include <algorithm>

#include "wiped.hpp"

namespace privmw {

namespace {

constexpr std::size_t tile = 2048;                // rows: their cell numbers stay in L1
constexpr std::size_t joint_block = 32768;        // rows: their masses stay in L2 from joint to joint
constexpr std::size_t most_doubled_cells = 2048;  // both copies fill 32 KB

// index[i] = index[i] * size + codes[i], cell numbers in C order. In 16 bits the baseline instruction set
// multiplies eight at a time.
template <class Index, class Code>
void append(Index* __restrict index, const Code* __restrict codes, Index size, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
        index[i] = static_cast<Index>(static_cast<Index>(index[i] * size) + static_cast<Index>(codes[i]));
}

// The common case in one pass: columns of bytes.
template <std::size_t order>
void index_bytes(std::uint16_t* __restrict index, const std::vector<Column>& columns, std::size_t row,
                 std::size_t count) {
    const std::uint8_t* codes[order];
    std::uint16_t sizes[order];
    for (std::size_t k = 0; k < order; ++k) {
        codes[k] = static_cast<const std::uint8_t*>(columns[k].codes) + row;
        sizes[k] = static_cast<std::uint16_t>(columns[k].size);
    }
    for (std::size_t i = 0; i < count; ++i) {
        std::uint16_t cell = codes[0][i];
        for (std::size_t k = 1; k < order; ++k)
            cell = static_cast<std::uint16_t>(static_cast<std::uint16_t>(cell * sizes[k]) + codes[k][i]);
        index[i] = cell;
    }
}

template <class Index>
void index_cells(Index* index, const std::vector<Column>& columns, std::size_t row, std::size_t count) {
    if constexpr (sizeof(Index) == 2) {
        const bool bytes = std::all_of(columns.begin(), columns.end(), [](auto& c) { return c.width == 1; });
        if (bytes && columns.size() == 2) return index_bytes<2>(index, columns, row, count);
        if (bytes && columns.size() == 3) return index_bytes<3>(index, columns, row, count);
        if (bytes && columns.size() == 4) return index_bytes<4>(index, columns, row, count);
        if (bytes && columns.size() == 5) return index_bytes<5>(index, columns, row, count);
        if (bytes && columns.size() == 6) return index_bytes<6>(index, columns, row, count);
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

// Two copies of each cell: neighbouring rows often add to the same one, which would stall.
template <class Index>
void scatter_twice(const Index* index, const Mass* masses, std::size_t count, Mass* sums, std::size_t cells) {
    Mass* const second = sums + cells;
    std::size_t i = 0;
    for (; i + 4 <= count; i += 4) {
        sums[index[i]] += masses[i];
        second[index[i + 1]] += masses[i + 1];
        sums[index[i + 2]] += masses[i + 2];
        second[index[i + 3]] += masses[i + 3];
    }
    for (; i < count; ++i) sums[index[i]] += masses[i];
}

template <class Index>
void add_rows(const TiledJoint& joint, const Mass* masses, std::size_t first, std::size_t last, Mass* sums,
              bool twice) {
    alignas(64) Index index[tile];
    for (std::size_t row = first; row < last; row += tile) {
        const std::size_t count = std::min(tile, last - row);
        index_cells(index, joint.columns, row, count);
        if (twice)
            scatter_twice(index, masses + row, count, sums, joint.cells);
        else
            scatter(index, masses + row, count, sums);
    }
}

template <class Index>
void gather_rows(const std::vector<Column>& columns, const Wrapping* values, std::size_t first,
                 std::size_t last, Wrapping* sums) {
    alignas(64) Index index[tile];
    for (std::size_t row = first; row < last; row += tile) {
        const std::size_t count = std::min(tile, last - row);
        index_cells(index, columns, row, count);
        for (std::size_t i = 0; i < count; ++i) sums[row - first + i] += values[index[i]];
    }
}

// Sums the joint over the columns that the marginal does not keep, last column first, within `work`.
void add_marginal(const TiledJoint& joint, const Mass* cells, const TiledMarginal& marginal,
                  Wiped<Mass>& work) {
    std::size_t after = 1, total = joint.cells;
    const Mass* from = cells;
    for (std::size_t a = joint.columns.size(); a-- > 0;) {
        const std::size_t size = joint.columns[a].size;
        if (marginal.keeps >> a & 1) {
            after *= size;
            continue;
        }
        const std::size_t before = total / (size * after);
        work.resize(joint.cells);
        // In place: writes stay at or before the next read.
        for (std::size_t b = 0; b < before; ++b)
            for (std::size_t k = 0; k < after; ++k) {
                Mass sum = 0;
                for (std::size_t v = 0; v < size; ++v) sum += from[(b * size + v) * after + k];
                work[b * after + k] = sum;
            }
        from = work.data();
        total /= size;
    }
    for (std::size_t c = 0; c < total; ++c) marginal.sums[c] += from[c];
}

}  // namespace

void add_tiles(std::span<const TiledJoint> joints, const Mass* masses, std::size_t first, std::size_t last) {
    // A lone marginal of many cells takes its rows directly; the others get scratch cells, twice where they
    // are few.
    struct Scratch {
        std::size_t start = 0;
        bool direct = false, twice = false;
    };
    std::vector<Scratch> layout(joints.size());
    std::size_t scratch_cells = 0;
    for (std::size_t j = 0; j < joints.size(); ++j) {
        layout[j].twice = joints[j].cells <= std::min(most_doubled_cells, (last - first) / 4);
        layout[j].direct = joints[j].marginals.size() == 1 && !layout[j].twice;
        layout[j].start = scratch_cells;
        if (!layout[j].direct) scratch_cells += joints[j].cells * (layout[j].twice ? 2 : 1);
    }
    Wiped<Mass> scratch(scratch_cells), work;
    for (std::size_t row = first; row < last; row += joint_block) {
        const std::size_t end = std::min(last, row + joint_block);
        for (std::size_t j = 0; j < joints.size(); ++j) {
            const TiledJoint& joint = joints[j];
            Mass* sums = layout[j].direct ? joint.marginals[0].sums : scratch.data() + layout[j].start;
            if (joint.cells <= 0x10000)
                add_rows<std::uint16_t>(joint, masses, row, end, sums, layout[j].twice);
            else if (joint.cells <= 0xffffffffULL)
                add_rows<std::uint32_t>(joint, masses, row, end, sums, layout[j].twice);
            else
                add_rows<std::uint64_t>(joint, masses, row, end, sums, layout[j].twice);
        }
    }
    for (std::size_t j = 0; j < joints.size(); ++j) {
        if (layout[j].direct) continue;
        Mass* const cells = scratch.data() + layout[j].start;
        if (layout[j].twice)
            for (std::size_t c = 0; c < joints[j].cells; ++c) cells[c] += cells[joints[j].cells + c];
        for (const TiledMarginal& marginal : joints[j].marginals)
            add_marginal(joints[j], cells, marginal, work);
    }
}

void add_values(const std::vector<Column>& columns, std::size_t cells, const Wrapping* values,
                std::size_t first, std::size_t last, Wrapping* sums) {
    if (cells <= 0x10000)
        gather_rows<std::uint16_t>(columns, values, first, last, sums);
    else if (cells <= 0xffffffffULL)
        gather_rows<std::uint32_t>(columns, values, first, last, sums);
    else
        gather_rows<std::uint64_t>(columns, values, first, last, sums);
}

}  // namespace privmw
