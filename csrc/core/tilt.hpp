// A distribution tilted by potentials: base * exp(potential), made to total one.
#pragma once

#include <cstddef>

namespace privmw {

// weights: OUT, one per row, base * exp(potential - log_total). Returns log_total, the logarithm of the sum
// of base * exp(potential). The largest potential of a row with base above zero is taken off first, so that
// nothing overflows but a base whose total does. Fixed blocks of rows: the same bits for any number of
// threads. Throws std::invalid_argument unless base is finite, none negative, not all zero, with a finite
// total, and potentials are finite.
double tilt(const double* base, const double* potentials, std::size_t rows, int threads, double* weights);

}  // namespace privmw
