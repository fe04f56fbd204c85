// Linear systems of Newton steps: of a least-squares fit, (A diag(inner) A' + diag(ridge)) d = right, or any
// symmetric positive definite one.
#pragma once

#include "core/tallies/tallies.hpp"

namespace privmw {

class LinearSystem {
  public:
    explicit LinearSystem(const Tallies& tallies);

    // inner: IN, one per row, not negative; ridge, right: IN, one per query, where a negative ridge ignores
    // it; direction: OUT, zero for ignored ones. Exact for few queries, by conjugate gradients to a relative
    // accuracy for many.
    void solve(const double* inner, const double* ridge, const double* right, double accuracy,
               double* direction);

  private:
    void solve_exactly(const double* ridge, const double* right, double* direction);
    void solve_by_gradients(const double* inner, const double* ridge, const double* right, double accuracy,
                            double* direction);
    void multiply(const double* inner, const double* ridge, const double* vector, double* product);

    const Tallies& tallies_;
    std::size_t count_;
    bool gram_, exact_;
    std::vector<std::uint32_t> order_;  // of elimination
    std::vector<double> matrix_, lower_,
        column_;                // count x count: the gram matrix; its factor
    std::vector<double> rows_;  // one per row
    std::vector<double> scaling_, residual_, scaled_, along_, product_;  // one per query
};

// solution: OUT, of matrix * solution = right, for a symmetric positive definite matrix of n x n (its lower
// half is read). By Cholesky, one element after another in one order: the same bits on every machine, which
// linear algebra libraries do not promise. An unknown whose pivot is lost to rounding is zero.
void solve_positive(const double* matrix, const double* right, std::size_t n, double* solution);

}  // namespace privmw
