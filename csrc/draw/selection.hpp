// Exact selection from integer scores. The time depends on the scores: do not expose it to a remote caller.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "draw/decay.hpp"
#include "draw/errors.hpp"

namespace privmw::draw {

using StoredScores = std::span<const std::int64_t>;

// gamma_i = (largest score - score_i) * unit, weight p_i = exp(-gamma_i). Each returns k distinct indices, in
// the order chosen: the i-th is drawn by the mechanism from the candidates that the first i - 1 left
// (peeling). Candidates are all scores but the excluded, ascending and distinct. Require 1 <= k <=
// candidates, scores.size() < 2^31.

// Every candidate is heads with probability p_i; one of the heads, uniformly.
template <class Scores>  // StoredScores or Errors
std::vector<std::int64_t> select_permute_and_flip(const WordSource& words, const Scores& scores,
                                                  std::span<const std::int64_t> excluded, const Decay& decay,
                                                  std::int64_t k);

// Candidate i with probability p_i / sum of p.
template <class Scores>
std::vector<std::int64_t> select_exponential(const WordSource& words, const Scores& scores,
                                             std::span<const std::int64_t> excluded, const Decay& decay,
                                             std::int64_t k);

// k draws with replacement, each with probability p_i / sum of p, however many candidates there are.
template <class Scores>
std::vector<std::int64_t> draw_exponential(const WordSource& words, const Scores& scores, const Decay& decay,
                                           std::int64_t k);

// The largest score_i * unit + E_i with E_i standard exponential; the same law as permute-and-flip by another
// way.
std::vector<std::int64_t> report_noisy_max(const WordSource& words, StoredScores scores, const Decay& decay,
                                           std::int64_t k);

}  // namespace privmw::draw
