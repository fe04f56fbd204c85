// Best responses: coordinate ascent of records to a large sum of weighted queries.
//
// The score of a record is the sum of the weights of the queries that it matches, plus one term per value.
// All are integers, so that results have the same bits on every backend and number of threads.
#pragma once

#include <span>

#include "core/rows.hpp"
#include "core/types.hpp"

namespace privmw {

class Responses {
  public:
    // weights: one per query. No sum of absolute weights and terms may pass 2^62.
    Responses(std::vector<std::uint32_t> sizes, QueryList queries, std::vector<std::int64_t> weights);

    // Improves each record (IN and OUT, records x attributes) until no single attribute can: an attribute
    // takes the first of its best values if that is better than its own. terms: IN, groups x values, the
    // attributes' values one after the other; record r has those of group r * groups / records. scores: OUT,
    // one per record.
    void climb(std::span<const std::int64_t> terms, std::size_t groups, std::uint32_t* codes,
               std::size_t records, int threads, std::int64_t* scores) const;

  private:
    struct Literal {
        std::uint32_t query, value;
    };

    std::int64_t climb_one(const std::int64_t* terms, std::uint32_t* codes, std::vector<std::uint32_t>& unmet,
                           std::vector<std::int64_t>& scores) const;

    std::vector<std::uint32_t> sizes_;
    std::vector<std::size_t> first_value_;        // of each attribute among all values, and their number
    std::vector<std::vector<Literal>> literals_;  // of each attribute
    std::vector<std::uint32_t> order_;            // of each query
    std::vector<std::int64_t> weights_;
};

}  // namespace privmw
