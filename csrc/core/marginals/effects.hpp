// Cells of marginals over rows as effects of uncommon values: potentials, sums, and one after the other.
//
// Each attribute has its commonest value. A function of a marginal's cells is the sum of effects, one for
// each set of its attributes: what the values of that set add where all others are common, beyond what its
// subsets add. An effect of a common value is zero. So a row has the effects of the sets of its *uncommon*
// values alone, and those of one set that come from several marginals are one number: of 1,024 marginals of
// a survey a row has 192 effects, of 286 of ADULT 32. Rows list theirs.
//
// A row that has the effect of a set has those of all its subsets. So each set has another, of one attribute
// more, that carries it: the effects that rows list are those of a set and of all that it carries, and a row
// lists a set only where it does not have the one that carries it: 111 effects of the survey, 18 of ADULT.
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
    // places: the cells that have values, ascending, of all the workload's. Nothing where the lists would
    // have more bytes than most_bytes.
    static std::optional<Effects> of(const Columns& columns, const MarginalList& workload,
                                     std::span<const std::int64_t> places, std::size_t most_bytes);

    // Leaves out all places but these (IN, ascending): their numbers among those that there are.
    void keep(std::span<const std::int64_t> kept);

    std::size_t bytes() const;

    // For each of `rows` the sum of its cells' values, times 2^exponent. values: IN, one per place;
    // potentials: OUT, one per given row.
    void potentials(std::span<const Row> rows, const std::int64_t* values, int exponent, int threads,
                    double* potentials) const;

    // sums: OUT, one per place. masses: IN, one per given row.
    void sum(std::span<const Row> rows, const Mass* masses, int threads, Mass* sums) const;

    // The prices of places (IN), by cell of a marginal that has an effect; 0 where that is no place.
    std::vector<double> by_cell(const double* prices) const;

    // Both: potentials (OUT, one per given row) of the values  price * sum  of cells, rounded to units of
    // 2^unit and below 2^51 of those, times 2^exponent. masses: IN, one per given row; prices: as by_cell has
    // them.
    void spread(std::span<const Row> rows, const Mass* masses, const double* prices, int unit, int exponent,
                int threads, double* potentials) const;

  private:
    class Builder;

    Effects() = default;
    Wrapping* sum_effects(std::span<const Row> rows, const Mass* masses, int threads) const;
    // Runs sweep(first member, the end, scratch, effects that are shared) over all members, which also writes
    // the effects that are not. effects: OUT, those that rows list.
    template <class Sweep>
    void find_effects(int threads, Wrapping* effects, Sweep&& sweep) const;
    void gather_effects(std::span<const Row> rows, const Wrapping* effects, int exponent, int threads,
                        double* potentials) const;

    EffectSets sets_;
    RowEffects lists_;
    std::size_t count_ = 1, cells_ = 0;  // of effects, and of all members
};

}  // namespace privmw
