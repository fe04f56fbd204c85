// The tasks of a plan: what one thread evaluates at a time, in stages that build on each other.
#pragma once

#include "core/marginals/costs.hpp"
#include "core/marginals/plan.hpp"

namespace privmw {

// Fills plan.stages, for marginals whose ways, parents and places are decided.
void make_tasks(const Columns& columns, const PairStatistics& statistics, Plan& plan);

}  // namespace privmw
