// Potentials and sums of cells of marginals, by effects of uncommon values.
//
// A function of a marginal's cells is a sum of effects, one per set of its attributes, relative to the
// commonest value of each attribute (as dummy coding in ANOVA): effects that involve a common value are zero.
// So a row has effects for the sets of its *uncommon* values only, and the same set in several marginals has
// one effect: of 1,024 marginals of a survey a row has 192 effects, of 286 of ADULT 32. Rows list theirs.
//
// A row with the effect of a set has those of all subsets. So each set is carried by a set with one more
// attribute: a listed effect includes the effects that it carries, and a row lists a set only if it lacks its
// carrier: 111 effects of the survey, 18 of ADULT.
//
// Values are integers, added modulo 2^64: sums are exact, and the same bits as cell by cell.
#pragma once

#include <optional>

#include "core/marginals/effect_sweeps.hpp"
#include "core/marginals/plan.hpp"
#include "core/marginals/row_effects.hpp"

namespace privmw {

class Effects {
  public:
    // places: the cells with values, ascending, among the workload's. Nothing if the lists would exceed
    // most_bytes.
    static std::optional<Effects> of(const Columns& columns, const MarginalList& workload,
                                     std::span<const std::int64_t> places, std::size_t most_bytes);

    // Keeps only these places (IN, ascending), by index among the present ones.
    void keep(std::span<const std::int64_t> kept);

    std::size_t bytes() const;

    // For each of `rows` the sum of its cells' values, times 2^exponent. values: IN, one per place;
    // potentials: OUT, one per given row.
    void potentials(std::span<const Row> rows, const std::int64_t* values, int exponent, int threads,
                    double* potentials) const;

    // sums: OUT, one per place. masses: IN, one per given row.
    void sum(std::span<const Row> rows, const Mass* masses, int threads, Mass* sums) const;

    // The prices of places (IN), by cell with an effect; 0 for cells that are not places.
    std::vector<double> by_cell(const double* prices) const;

    // Potentials (OUT, one per given row) of price * sum of each cell, rounded to units of 2^unit and below
    // 2^51 of those, times 2^exponent. masses: IN, one per given row; prices: from by_cell.
    void spread(std::span<const Row> rows, const Mass* masses, const double* prices, int unit, int exponent,
                int threads, double* potentials) const;

  private:
    class Builder;

    Effects() = default;
    Wrapping* sum_effects(std::span<const Row> rows, const Mass* masses, int threads) const;
    // Runs sweep(begin, end, scratch, shared effects) over all members; it also writes the effects that are
    // not shared. effects: OUT, the listed ones.
    template <class Sweep>
    void find_effects(int threads, Wrapping* effects, Sweep&& sweep) const;
    void gather_effects(std::span<const Row> rows, const Wrapping* effects, int exponent, int threads,
                        double* potentials) const;

    EffectSets sets_;
    RowEffects lists_;
    std::size_t count_ = 1, cells_ = 0;  // of effects, and of all members
};

}  // namespace privmw
