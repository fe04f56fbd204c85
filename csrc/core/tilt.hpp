// A distribution tilted by potentials: base * exp(potential), made to total one.
//
// The weight of a row depends on the row and on numbers shared by all rows, which may be one shard of many.
// privmw.kernels.projection computes those numbers, with an exact total in between (core/weights.hpp).
#pragma once

#include <cstddef>

namespace privmw {

// The largest potential of a row with base above zero, -infinity if there is none. NaN unless every base is
// finite and none negative; else infinity unless every potential is finite.
double most_potential(const double* base, const double* potentials, std::size_t rows, int threads);

// weights: OUT, one per row, base * exp(potential - most). Returns the largest. Rows of base zero may have
// potentials above `most`; a row 1416 or more below it is zero, whatever its base.
double tilt(const double* base, const double* potentials, double most, std::size_t rows, int threads,
            double* weights);

// Multiplies weights (IN and OUT) by 2^exponent * factor, factor in (1/2, 1].
void normalise(double* weights, std::size_t rows, int exponent, double factor, int threads);

}  // namespace privmw
