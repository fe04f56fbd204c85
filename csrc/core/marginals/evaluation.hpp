// The state of one evaluation: what its tasks read and where they write.
#pragma once

#include <mutex>
#include <utility>

#include "core/marginals/marginals.hpp"
#include "wiped.hpp"

namespace privmw {

struct Marginals::Evaluation {
    const Columns& columns;
    const Mass* masses;
    bool whole;  // columns are the plan's own, not a taken part
    bool add;
    Mass* sums;
    mutable Wiped<Mass> kept;
    mutable std::mutex merging;

    // Where a marginal is written, and whether it is added to the values there.
    template <class Marginal>
    std::pair<Mass*, bool> target(const Marginal& marginal) const {
        if (marginal.kept >= 0) return {kept.data() + marginal.kept, false};
        return {sums + marginal.sums, add};
    }
    const Mass* parent(const Plan& plan, const PlannedMarginal& marginal) const {
        return kept.data() + plan.marginals[marginal.parent].kept;
    }
};

}  // namespace privmw
