#include "core/marginals/marginal_cells.hpp"

#include "core/power_of_two.hpp"

namespace privmw {

MarginalCells::MarginalCells(const DeferredMarginals& marginals, std::span<const std::int64_t> places,
                             std::size_t most_bytes)
    : marginals_(marginals),
      places_(places.begin(), places.end()),
      effects_(Effects::of(marginals.columns(), marginals.workload(), places, most_bytes)) {}

void MarginalCells::keep(std::span<const std::int64_t> kept) {
    for (std::size_t i = 0; i < kept.size(); ++i)
        places_[i] = places_[kept[i]];  // ascending, so nothing is overwritten
    places_.resize(kept.size());
    places_.shrink_to_fit();
    if (effects_) effects_->keep(kept);
}

std::size_t MarginalCells::bytes() const {
    return places_.size() * sizeof places_[0] + (effects_ ? effects_->bytes() : 0);
}

void MarginalCells::sum(std::span<const Row> rows, const Mass* masses, int threads, Mass* sums) const {
    if (effects_) return effects_->sum(rows, masses, threads, sums);
    const Marginals& marginals = marginals_.planned();
    std::vector<Mass> of_rows, of_cells(marginals.cells());
    if (rows.size() < marginals.columns().rows()) {  // otherwise all rows, in order
        of_rows.resize(marginals.columns().rows());
        for (std::size_t i = 0; i < rows.size(); ++i) of_rows[rows[i]] = masses[i];
        masses = of_rows.data();
    }
    marginals.sum(masses, threads, of_cells.data());
    for (std::size_t i = 0; i < places_.size(); ++i) sums[i] = of_cells[places_[i]];
}

void MarginalCells::potentials(std::span<const Row> rows, const std::int64_t* values, int exponent,
                               int threads, double* potentials) const {
    if (effects_) return effects_->potentials(rows, values, exponent, threads, potentials);
    const Marginals& marginals = marginals_.planned();
    std::vector<std::int64_t> of_cells(marginals.cells());
    for (std::size_t i = 0; i < places_.size(); ++i) of_cells[places_[i]] = values[i];
    if (rows.size() == marginals.columns().rows())
        return marginals.potentials(of_cells.data(), exponent, threads, potentials);
    std::vector<double> of_rows(marginals.columns().rows());
    marginals.potentials(of_cells.data(), exponent, threads, of_rows.data());
    for (std::size_t i = 0; i < rows.size(); ++i) potentials[i] = of_rows[rows[i]];
}

GramProduct::GramProduct(const MarginalCells& cells, std::span<const double> prices)
    : cells_(cells),
      prices_(cells.effects_ ? cells.effects_->by_cell(prices.data())
                             : std::vector<double>(prices.begin(), prices.end())) {}

void GramProduct::spread(std::span<const Row> rows, const Mass* masses, int unit, int exponent, int threads,
                         double* potentials) const {
    if (cells_.effects_)
        return cells_.effects_->spread(rows, masses, prices_.data(), unit, exponent, threads, potentials);
    std::vector<Mass> values(prices_.size());
    cells_.sum(rows, masses, threads, values.data());
    const PowerOfTwo down(-unit);
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] =
            static_cast<Mass>(rounded(down * (to_double(static_cast<Wrapping>(values[i])) * prices_[i])));
    cells_.potentials(rows, values.data(), exponent, threads, potentials);
}

}  // namespace privmw
