// The matrix of a projection onto measured queries: the queries that groups of rows match.
#pragma once

#include <mutex>
#include <span>

#include "core/rows.hpp"

namespace privmw {

// Queries that are added to groups of rows, in turn. Query q matches the groups matched[matched_starts[q]] to
// matched[matched_starts[q + 1] - 1] entirely, and those of cut, likewise, in part: the matching part of a
// cut group becomes a new group, numbered after all others.
struct AddedQueries {
    std::span<const std::int64_t> matched, matched_starts, cut, cut_starts;
    std::size_t size() const { return matched_starts.size() - 1; }
};

// starts: IN, those of the lists of the groups' queries before. new_starts: OUT, with the added queries, for
// starts.size() + added.cut.size() entries.
void split_starts(std::span<const std::int64_t> starts, const AddedQueries& added, std::int64_t* new_starts);

// queries: IN, the lists before. new_queries: OUT, the lists with the added queries, numbered from `first`: a
// part has the queries that its group had before the cut.
void split_lists(std::span<const std::int64_t> starts, const std::uint32_t* queries,
                 const AddedQueries& added, std::uint32_t first, std::span<const std::int64_t> new_starts,
                 std::uint32_t* new_queries);

// Group g matches queries[starts[g]] to queries[starts[g + 1] - 1], ascending, each below `count`.
class Incidence {
  public:
    // Keeps views of the arrays.
    Incidence(std::span<const std::int64_t> starts, std::span<const std::uint32_t> queries, std::size_t count)
        : starts_(starts), queries_(queries), count_(count) {}

    std::size_t groups() const { return starts_.size() - 1; }
    std::size_t count() const { return count_; }
    std::size_t bytes() const;

    // potentials: OUT, one per group, the sum of the values (IN, one per query) of its queries, in order.
    void potentials(const double* values, int threads, double* potentials) const;

    // sums: OUT, one per query, the sum of the weights (IN, one per group) of its groups, in order.
    void sums(const double* weights, double* sums) const;

    // matrix: OUT, count x count, the sum of the weights (IN, one per group) of the groups that match both
    // queries; symmetric. The order of additions does not depend on the number of threads.
    void gram(const double* weights, int threads, double* matrix) const;

  private:
    // By query: its groups, ascending, and where their later queries begin.
    struct Lists {
        std::vector<std::int64_t> starts;
        std::vector<std::uint32_t> groups;
        std::vector<std::int64_t> behind;
    };
    const Lists& lists() const;  // built at the first call; safe from several threads

    // For each block of six queries and each group, the bits of the queries that it matches.
    const std::vector<std::uint8_t>& group_codes() const;

    bool dense() const;  // whether groups match enough queries that codes cost less than lists
    void gram_by_codes(const double* weights, int threads, double* matrix) const;  // its upper half
    void gram_by_lists(const double* weights, int threads, double* matrix) const;

    std::span<const std::int64_t> starts_;
    std::span<const std::uint32_t> queries_;
    std::size_t count_;
    mutable std::mutex lists_mutex_;
    mutable Lists lists_;
    mutable std::vector<std::uint8_t> codes_;
};

}  // namespace privmw
