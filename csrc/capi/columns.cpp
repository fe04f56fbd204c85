#include <algorithm>

#include "capi/guard.hpp"
#include "core/rows.hpp"

namespace privmw::capi {

std::vector<Column> checked_columns(const privmw_column* columns, std::size_t attributes, std::size_t rows) {
    require_pointers({columns});
    require(attributes >= 1 && attributes <= INT32_MAX && rows >= 1 && rows <= most_rows, PRIVMW_SIZE);
    std::vector<Column> checked;
    for (std::size_t a = 0; a < attributes; ++a) {
        const privmw_column& given = columns[a];
        require_pointers({given.codes});
        require(given.width == 1 || given.width == 2 || given.width == 4, PRIVMW_SIZE);
        const auto address = reinterpret_cast<std::uintptr_t>(given.codes);
        require(given.size >= 1 && address % given.width == 0, PRIVMW_VALUE);
        const Column column{given.codes, static_cast<int>(given.width), given.size};
        const std::uint32_t largest = with_codes(column, [&](const auto* codes) -> std::uint32_t {
            return *std::max_element(codes, codes + rows);
        });
        require(largest < given.size, PRIVMW_VALUE);
        checked.push_back(column);
    }
    return checked;
}

}  // namespace privmw::capi

using namespace privmw;
using namespace privmw::capi;

privmw_status privmw_columns_new(const privmw_column* columns, size_t attributes, size_t rows, int threads,
                                 privmw_columns** out) noexcept {
    return guarded([&] {
        require_pointers({out});
        require_threads(threads);
        *out = new privmw_columns{checked_columns(columns, attributes, rows), rows};
    });
}

void privmw_columns_free(privmw_columns* columns) noexcept {
    delete columns;
}

privmw_status privmw_distinct_rows(const privmw_column* columns, size_t attributes, size_t rows, int threads,
                                   size_t room, uint32_t* first, int64_t* counts, size_t* found) noexcept {
    return guarded([&] {
        require_pointers({first, counts, found});
        require_threads(threads);
        const DistinctRows distinct =
            distinct_rows(checked_columns(columns, attributes, rows), rows, threads);
        *found = distinct.first.size();
        require(*found <= room, PRIVMW_SIZE);
        std::copy(distinct.first.begin(), distinct.first.end(), first);
        std::copy(distinct.counts.begin(), distinct.counts.end(), counts);
    });
}

privmw_status privmw_matching_rows(const privmw_columns* columns, const uint32_t* attributes,
                                   const uint32_t* values, size_t count, size_t room, uint32_t* rows,
                                   size_t* found) noexcept {
    return guarded([&] {
        require_pointers({columns, attributes, values, rows, found});
        for (std::size_t i = 0; i < count; ++i) {
            require(attributes[i] < columns->columns.size(), PRIVMW_VALUE);
            require(values[i] < columns->columns[attributes[i]].size, PRIVMW_VALUE);
        }
        std::vector<std::uint64_t> bitmap((columns->rows + 63) / 64);
        matching_bitmap(columns->columns, columns->rows, {attributes, count}, {values, count}, bitmap.data());
        *found = count_rows(bitmap);
        require(*found <= room, PRIVMW_SIZE);
        list_rows(bitmap, rows);
    });
}
