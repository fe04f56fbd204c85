// Least squares on sums of weights, solved on the dual by Newton's method.
#pragma once

#include "core/tallies/tallies.hpp"

namespace privmw {

// One number for all, or one per entry.
struct Values {
    const double* first = nullptr;
    std::size_t step = 0;  // 0 or 1
    double operator[](std::size_t i) const { return first[i * step]; }
};

// Near `centre` with these variances, within bounds.
struct FitTargets {
    const double* centre = nullptr;
    Values variance, lower, upper;
};

struct Stop {
    double tolerance = 0;  // of the largest |y - A x|
    int steps = 0;
    double limit = 0;  // of the dual value
};

struct Solution {
    double left = 0;   // the largest |y - A x|
    double value = 0;  // a lower bound of the cost of every feasible fit
    int steps = 0;
};

// weights: OUT, one per row, clip(centre - variance * A' multipliers); multipliers: IN a start, OUT, one per
// query, such that y = clip(answers + variance * multipliers) is near A x. A query of infinite variance is
// ignored, one of variance zero is met exactly.
Solution solve(const Tallies& tallies, const FitTargets& rows, const FitTargets& queries, const Stop& stop,
               double* weights, double* multipliers);

}  // namespace privmw
