// The sums of a workload's cells over weighted rows, and their change when only some rows change.
#pragma once

#include <map>

#include "core/marginals/lists.hpp"
#include "core/marginals/plan.hpp"
#include "core/marginals/tiles.hpp"

namespace privmw {

class Marginals {
  public:
    // Keeps a reference to `columns`.
    Marginals(const Columns& columns, const MarginalList& workload, int threads);

    std::size_t cells() const { return plan_.cells; }
    const Columns& columns() const { return columns_; }
    const Plan& plan() const { return plan_; }
    std::size_t bytes() const;

    // sums: OUT, one per cell. masses: IN, one per row.
    void sum(const Mass* masses, int threads, Mass* sums) const;

    // Adds `changes` (IN, one per given row) of the masses of `rows` to sums. Exact: the same bits as a new
    // sum.
    void add_changes(std::span<const Row> rows, const Mass* changes, int threads, Mass* sums) const;

    // The adjoint of sum. values: IN, one per cell; potentials: OUT, one per row, 2^exponent times the sum of
    // the values of its cells, which fits 64 bits. Sums are exact: they depend neither on the plan and the
    // other rows nor on the number of threads.
    void potentials(const std::int64_t* values, int exponent, int threads, double* potentials) const;

  private:
    // The uncommon rows of an attribute and the other columns there, for way `rare`.
    struct RareRows {
        std::vector<Row> rows;
        std::vector<OwnedColumn> columns;  // by attribute; empty if not needed
        std::size_t bytes() const;
    };
    // What the lists write of a marginal: for three attributes the two besides the rarest, else its two, or
    // its only one (c).
    struct Listed {
        ListedAxis b, c;
        std::uint32_t order = 0, rarest_stride = 0;
        std::ptrdiff_t sums = -1, kept = -1, parent_kept = -1;
    };
    struct Evaluation;  // of one call
    struct Leaning;     // of one call for potentials

    Listed list_marginal(const PlannedMarginal& marginal) const;
    void keep_rare_rows(int threads);
    RareRows gather_rare_rows(const Columns& columns, const PlannedTask& task, RareRows gathered) const;
    template <class Find, class Where>
    std::vector<TiledJoint> tiled_joints(const PlannedTask& task, Find&& column, Where&& where) const;
    template <class Find, class Use>
    void run_aside(const PlannedTask& task, Find&& column, const Mass* masses, std::size_t first,
                   std::size_t last, Use&& use) const;
    void run_tiles(const Evaluation& evaluation, const PlannedTask& task) const;
    void run_rare(const Evaluation& evaluation, const PlannedTask& task) const;
    void run_lists_of_pairs(const Evaluation& evaluation, const PlannedTask& task) const;
    void run_lists_of_triples(const Evaluation& evaluation, const PlannedTask& task) const;
    void evaluate(const Columns& columns, const Mass* masses, bool add, int threads, Mass* sums) const;
    Leaning lean(const std::int64_t* values, std::vector<Wrapping>& storage) const;
    void add_uncommon(const Leaning& leaning, std::uint32_t attribute, std::size_t first, std::size_t last,
                      Wrapping* sums) const;
    void add_by_tiles(const Columns& columns, const Mass* masses, int threads, Mass* sums) const;

    const Columns& columns_;
    Plan plan_;
    std::vector<std::vector<Listed>> listed_;      // by task of way lists, in the order of writing
    std::map<std::uint32_t, RareRows> rare_rows_;  // by rarest attribute, where they fit
};

}  // namespace privmw
