// Distinct rows with counts, rows that match a query, and groups of rows that match the same queries.
#pragma once

#include "core/columns.hpp"

namespace privmw {

struct DistinctRows {
    std::vector<Row> first;            // of each distinct row, ascending by codes
    std::vector<std::int64_t> counts;  // of each distinct row
};

// Rows are compared attribute by attribute in the order of the columns.
DistinctRows distinct_rows(const std::vector<Column>& columns, std::size_t rows, int threads);

// Rows where every attribute has the given value: row r is bit r % 64 of word r / 64.
void matching_bitmap(std::span<const Column> columns, std::size_t rows,
                     std::span<const std::uint32_t> attributes, std::span<const std::uint32_t> values,
                     std::uint64_t* words);  // OUT, ceil(rows / 64)

// The number of rows in a bitmap, and the rows, ascending.
std::size_t count_rows(std::span<const std::uint64_t> bitmap);
void list_rows(std::span<const std::uint64_t> bitmap, Row* rows);  // OUT, count_rows of them

// A list of queries: query i is attributes[k] == values[k] for all k in [starts[i], starts[i + 1]).
struct QueryList {
    std::vector<std::uint32_t> attributes;
    std::vector<std::uint32_t> values;
    std::vector<std::size_t> starts;
    std::size_t size() const { return starts.size() - 1; }
};

// groups: OUT, one per row; rows have the same number if and only if every query answers them alike. Groups
// are numbered in the order of their first rows. Returns the number of groups.
std::uint32_t groups_alike(const Columns& columns, const QueryList& queries, std::uint32_t* groups);

struct Matches {
    std::vector<std::int64_t> starts;    // one per given row, and the end
    std::vector<std::uint32_t> queries;  // ascending within a row
};

// The queries that each of the given rows matches.
Matches incidence_of_groups(const Columns& columns, std::span<const Row> rows, const QueryList& queries,
                            int threads);

}  // namespace privmw
