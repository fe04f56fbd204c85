// Some cells of marginals over some of the rows, for repeated evaluation: by effects if the rows' lists are
// not too large, otherwise by the marginals' plan.
#pragma once

#include "core/marginals/deferred.hpp"
#include "core/marginals/effects.hpp"

namespace privmw {

class MarginalCells {
  public:
    // Keeps a reference to `marginals`. places: of the cells, ascending; most_bytes: of the lists.
    MarginalCells(const DeferredMarginals& marginals, std::span<const std::int64_t> places,
                  std::size_t most_bytes);

    // Keeps only these cells (IN, ascending), by index among the present ones.
    void keep(std::span<const std::int64_t> kept);

    std::size_t bytes() const;

    // As in Effects.
    void sum(std::span<const Row> rows, const Mass* masses, int threads, Mass* sums) const;
    void potentials(std::span<const Row> rows, const std::int64_t* values, int exponent, int threads,
                    double* potentials) const;

  private:
    const DeferredMarginals& marginals_;
    std::vector<std::int64_t> places_;
    std::optional<Effects> effects_;

    friend class GramProduct;
};

// The operator Q diag(prices) Q^T on rows, where Q says which cell holds which row.
class GramProduct {
  public:
    // Keeps a reference to `cells`. prices: IN, one per cell.
    GramProduct(const MarginalCells& cells, std::span<const double> prices);

    // As in Effects.
    void spread(std::span<const Row> rows, const Mass* masses, int unit, int exponent, int threads,
                double* potentials) const;

  private:
    const MarginalCells& cells_;
    std::vector<double> prices_;  // in the order of the effects, if used
};

}  // namespace privmw
