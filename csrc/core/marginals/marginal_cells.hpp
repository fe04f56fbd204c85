// Some cells of marginals over some of the rows, evaluated again and again: by effects where the rows' lists
// of them are not too large, otherwise as the marginals' plan has it.
#pragma once

#include "core/marginals/deferred.hpp"
#include "core/marginals/effects.hpp"

namespace privmw {

class MarginalCells {
  public:
    // Keeps a reference to `marginals`. places: of the cells, ascending; most_bytes: of the lists.
    MarginalCells(const DeferredMarginals& marginals, std::span<const std::int64_t> places,
                  std::size_t most_bytes);

    // Leaves out all cells but these (IN, ascending): their numbers among those that there are.
    void keep(std::span<const std::int64_t> kept);

    std::size_t bytes() const;

    // As of Effects.
    void sum(std::span<const Row> rows, const Mass* masses, int threads, Mass* sums) const;
    void potentials(std::span<const Row> rows, const std::int64_t* values, int exponent, int threads,
                    double* potentials) const;

  private:
    const DeferredMarginals& marginals_;
    std::vector<std::int64_t> places_;
    std::optional<Effects> effects_;

    friend class GramProduct;
};

// Cells with a price each.
class GramProduct {
  public:
    // Keeps a reference to `cells`. prices: IN, one per cell.
    GramProduct(const MarginalCells& cells, std::span<const double> prices);

    // As of Effects.
    void spread(std::span<const Row> rows, const Mass* masses, int unit, int exponent, int threads,
                double* potentials) const;

  private:
    const MarginalCells& cells_;
    std::vector<double> prices_;  // as the effects have them, if there are any
};

}  // namespace privmw
