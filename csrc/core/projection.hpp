// The matrix of a projection onto measured queries: which groups of rows answer yes to which queries.
#pragma once

#include <mutex>
#include <span>

#include "core/rows.hpp"

namespace privmw {

// Group g answers yes to queries[starts[g]] to queries[starts[g + 1] - 1], ascending, each below `count`.
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

    // matrix: OUT, count x count, the sum of the weights (IN, one per group) of the groups that answer yes to
    // both queries; symmetric. The order of additions does not depend on the number of threads.
    void gram(const double* weights, int threads, double* matrix) const;

  private:
    // By query: its groups, ascending, and where their queries behind it begin.
    struct Lists {
        std::vector<std::int64_t> starts;
        std::vector<std::uint32_t> groups;
        std::vector<std::int64_t> behind;
    };
    const Lists& lists() const;  // built at the first call; safe from several threads

    // Block after block of six queries: for each group which of them it answers yes to.
    const std::vector<std::uint8_t>& group_codes() const;

    bool dense() const;  // whether groups answer yes to so many queries that codes cost less than lists
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
