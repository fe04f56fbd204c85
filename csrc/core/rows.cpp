#include "core/rows.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "core/parallel.hpp"

namespace privmw {

namespace {

// The place of a code in a row packed into 64-bit words. No code crosses a word; earlier attributes take
// higher bits, so comparing words from the first compares rows attribute by attribute.
struct Place {
    std::size_t word;
    int shift;
};

std::vector<Place> pack_layout(const std::vector<Column>& columns, std::size_t& words) {
    std::vector<Place> places;
    words = 1;
    int free = 64;
    for (const Column& column : columns) {
        const int bits = std::bit_width(column.size - 1);  // none for a single value
        if (bits > free) {
            ++words;
            free = 64;
        }
        free -= bits;
        places.push_back({words - 1, free});
    }
    return places;
}

struct Keyed {
    std::uint64_t key;  // the row's first word
    Row row;
};

}  // namespace

DistinctRows distinct_rows(const std::vector<Column>& columns, std::size_t rows, int threads) {
    std::size_t words = 0;
    const auto places = pack_layout(columns, words);
    std::vector<std::uint64_t> packed(rows * words);
    constexpr std::size_t block = 2048;  // packed rows stay in cache from column to column
    for_each_task(static_cast<std::int64_t>((rows + block - 1) / block), threads, [&](std::int64_t b) {
        const std::size_t first = static_cast<std::size_t>(b) * block, last = std::min(rows, first + block);
        for (std::size_t a = 0; a < columns.size(); ++a)
            with_codes(columns[a], [&](const auto* codes) {
                std::uint64_t* word = packed.data() + places[a].word;
                // An attribute of one value needs no bits, and its shift may be 64.
                if (columns[a].size == 1) return;
                for (std::size_t r = first; r < last; ++r)
                    word[r * words] |= static_cast<std::uint64_t>(codes[r]) << places[a].shift;
            });
    });

    const auto less = [&](const Keyed& x, const Keyed& y) {
        if (x.key != y.key) return x.key < y.key;
        const std::uint64_t* p = packed.data() + x.row * words;
        const std::uint64_t* q = packed.data() + y.row * words;
        for (std::size_t w = 1; w < words; ++w)
            if (p[w] != q[w]) return p[w] < q[w];
        return x.row < y.row;  // the first of equal rows comes first, although the sort is not stable
    };
    const auto alike = [&](const Keyed& x, const Keyed& y) {
        return std::equal(packed.data() + x.row * words, packed.data() + (x.row + 1) * words,
                          packed.data() + y.row * words);
    };

    // Sorted runs merged pairwise: simpler than buckets by a sample's quantiles, and as parallel.
    std::vector<Keyed> keyed(rows);
    const std::size_t runs = threads > 1 ? std::bit_ceil(static_cast<std::size_t>(threads)) : 1;
    const auto cut = [&](std::size_t run, std::size_t of) { return keyed.begin() + rows * run / of; };
    for_each_task(static_cast<std::int64_t>(runs), threads, [&](std::int64_t run) {
        for (std::size_t r = rows * run / runs; r < rows * (run + 1) / runs; ++r)
            keyed[r] = {packed[r * words], static_cast<Row>(r)};
        std::sort(cut(run, runs), cut(run + 1, runs), less);
    });
    for (std::size_t width = 1; width < runs; width *= 2)
        for_each_task(static_cast<std::int64_t>(runs / (2 * width)), threads, [&](std::int64_t i) {
            const std::size_t at = static_cast<std::size_t>(i) * 2 * width;
            std::inplace_merge(cut(at, runs), cut(at + width, runs), cut(at + 2 * width, runs), less);
        });

    DistinctRows distinct;
    for (std::size_t i = 0; i < rows;) {
        std::size_t j = i + 1;
        while (j < rows && keyed[j].key == keyed[i].key && alike(keyed[j], keyed[i])) ++j;
        distinct.first.push_back(keyed[i].row);
        distinct.counts.push_back(static_cast<std::int64_t>(j - i));
        i = j;
    }
    return distinct;
}

void matching_bitmap(std::span<const Column> columns, std::size_t rows,
                     std::span<const std::uint32_t> attributes, std::span<const std::uint32_t> values,
                     std::uint64_t* words) {
    // A block of flags in L1, one byte a row, then eight bytes at a time into bits.
    constexpr std::size_t block = 4096;
    alignas(64) std::uint8_t flags[block];
    for (std::size_t row = 0; row < rows; row += block) {
        const std::size_t count = std::min(block, rows - row);
        std::memset(flags, 0, sizeof flags);
        std::fill_n(flags, count, 1);
        for (std::size_t i = 0; i < attributes.size(); ++i)
            with_codes(columns[attributes[i]], [&](const auto* codes) {
                const auto value = static_cast<std::remove_cvref_t<decltype(codes[0])>>(values[i]);
                // Values beyond the width of an attribute's codes match no row.
                if (value != values[i]) std::fill_n(flags, count, 0);
                for (std::size_t j = 0; j < count; ++j) flags[j] &= codes[row + j] == value;
            });
        for (std::size_t w = 0; w < (count + 63) / 64; ++w) {
            std::uint64_t bits = 0;
            for (int g = 0; g < 8; ++g) {
                std::uint64_t eight = 0;
                if constexpr (std::endian::native == std::endian::little)
                    std::memcpy(&eight, flags + w * 64 + g * 8, 8);
                else
                    for (int k = 0; k < 8; ++k) eight |= std::uint64_t{flags[w * 64 + g * 8 + k]} << (8 * k);
                // Bytes of 0 or 1: the multiplication moves byte k's bit to bit 56 + k, without carries.
                bits |= ((eight * 0x0102040810204080ULL) >> 56) << (8 * g);
            }
            words[row / 64 + w] = bits;
        }
    }
}

std::size_t count_rows(std::span<const std::uint64_t> bitmap) {
    std::size_t count = 0;
    for (std::uint64_t word : bitmap) count += static_cast<std::size_t>(std::popcount(word));
    return count;
}

void list_rows(std::span<const std::uint64_t> bitmap, Row* rows) {
    for (std::size_t w = 0; w < bitmap.size(); ++w)
        for (std::uint64_t bits = bitmap[w]; bits; bits &= bits - 1)
            *rows++ = static_cast<Row>(w * 64 + static_cast<std::size_t>(std::countr_zero(bits)));
}

namespace {

// rows: OUT, those that query i matches, ascending; bitmap: room for one bit per row.
void list_matching(const Columns& columns, const QueryList& queries, std::size_t i,
                   std::vector<std::uint64_t>& bitmap, std::vector<Row>& rows) {
    const std::size_t begin = queries.starts[i], count = queries.starts[i + 1] - begin;
    matching_bitmap(columns.views(), columns.rows(), {queries.attributes.data() + begin, count},
                    {queries.values.data() + begin, count}, bitmap.data());
    rows.resize(count_rows(bitmap));
    list_rows(bitmap, rows.data());
}

}  // namespace

std::uint32_t groups_alike(const Columns& columns, const QueryList& queries, std::uint32_t* groups) {
    const std::size_t rows = columns.rows();
    std::fill_n(groups, rows, 0);
    std::vector<std::uint64_t> bitmap((rows + 63) / 64);
    std::vector<Row> matching;
    std::vector<std::size_t> sizes{rows};
    constexpr std::uint32_t none = ~std::uint32_t{0};
    std::vector<std::uint32_t> moved_to{none};  // by group: the group its matching rows move to in this query
    std::vector<std::uint32_t> touched, empty;
    for (std::size_t i = 0; i < queries.size(); ++i) {
        list_matching(columns, queries, i, bitmap, matching);
        // Matching rows leave their group for a new one.
        for (Row r : matching) {
            const std::uint32_t group = groups[r];
            if (moved_to[group] == none) {
                if (empty.empty()) {
                    empty.push_back(static_cast<std::uint32_t>(sizes.size()));
                    sizes.push_back(0);
                    moved_to.push_back(none);
                }
                moved_to[group] = empty.back();
                empty.pop_back();
                touched.push_back(group);
            }
            --sizes[group];
            ++sizes[moved_to[group]];
            groups[r] = moved_to[group];
        }
        for (std::uint32_t group : touched) {
            moved_to[group] = none;
            if (sizes[group] == 0) empty.push_back(group);
        }
        touched.clear();
    }
    std::vector<std::uint32_t> number(sizes.size(), none);
    std::uint32_t found = 0;
    for (std::size_t r = 0; r < rows; ++r) {
        if (number[groups[r]] == none) number[groups[r]] = found++;
        groups[r] = number[groups[r]];
    }
    return found;
}

Matches incidence_of_groups(const Columns& columns, std::span<const Row> rows, const QueryList& queries,
                            int threads) {
    const auto taken = columns.take(rows);
    std::vector<std::vector<Row>> matching(queries.size());
    for_each_task(static_cast<std::int64_t>(queries.size()), threads, [&](std::int64_t i) {
        std::vector<std::uint64_t> bitmap((rows.size() + 63) / 64);
        list_matching(*taken, queries, static_cast<std::size_t>(i), bitmap, matching[i]);
    });
    Matches matches;
    matches.starts.assign(rows.size() + 1, 0);
    for (const auto& found : matching)
        for (Row r : found) ++matches.starts[r + 1];
    for (std::size_t r = 0; r < rows.size(); ++r) matches.starts[r + 1] += matches.starts[r];
    matches.queries.resize(static_cast<std::size_t>(matches.starts.back()));
    auto next = matches.starts;
    for (std::size_t i = 0; i < matching.size(); ++i)
        for (Row r : matching[i]) matches.queries[next[r]++] = static_cast<std::uint32_t>(i);
    return matches;
}

}  // namespace privmw
