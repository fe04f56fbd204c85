#include "core/linear.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace privmw {

namespace {

constexpr std::size_t most_exact = 500;  // unknowns; beyond, conjugate gradients
constexpr int most_inner = 400;          // conjugate gradients for one step

double dot(const std::vector<double>& a, const std::vector<double>& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Cholesky in place, row by row of the lower triangle. The right side is row n + 1 and becomes the result of
// forward substitution; the diagonal is inverted. Cells of one marginal share no row: if they come first,
// their columns are sparse, and zero entries are skipped.
void factor(double* lower, std::size_t n, double* column) {
    for (std::size_t j = 0; j < n; ++j) {
        const double pivot = lower[j * n + j];
        // The pivot is rounding: this unknown stays zero.
        const double inverse = pivot > 0 ? 1 / std::sqrt(pivot) : 0;
        lower[j * n + j] = inverse;
        std::size_t first = n;
        for (std::size_t i = n; i > j; --i) {
            column[i] = lower[i * n + j] *= inverse;
            if (column[i] != 0 && i < n) first = i;
        }
        for (std::size_t i = first; i <= n; ++i) {
            const double entry = column[i];
            if (entry == 0) continue;
            double* const row = lower + i * n;
            const std::size_t last = i < n ? i + 1 : n;
            for (std::size_t k = first; k < last; ++k) row[k] -= entry * column[k];
        }
    }
}

// Backward substitution in place: the unknowns, last to first.
void substitute_back(double* lower, std::size_t n) {
    double* const last = lower + n * n;
    for (std::size_t i = n; i-- > 0;) {
        const double* const row = lower + i * n;
        last[i] *= row[i];
        for (std::size_t j = 0; j < i; ++j) last[j] -= row[j] * last[i];
    }
}

}  // namespace

void solve_positive(const double* matrix, const double* right, std::size_t n, double* solution) {
    std::vector<double> lower((n + 1) * n), column(n + 1);
    std::copy_n(matrix, n * n, lower.begin());
    std::copy_n(right, n, lower.begin() + static_cast<std::ptrdiff_t>(n * n));
    factor(lower.data(), n, column.data());
    substitute_back(lower.data(), n);
    std::copy_n(lower.begin() + static_cast<std::ptrdiff_t>(n * n), n, solution);
}

LinearSystem::LinearSystem(const Tallies& tallies)
    : tallies_(tallies),
      count_(tallies.count()),
      gram_(tallies.has_gram()),
      exact_(gram_ && count_ <= most_exact),
      order_(count_) {
    std::iota(order_.begin(), order_.end(), 0);
    // The marginal with the most cells first, the others in their order.
    const auto& margins = tallies.margins();
    std::size_t most = 0;
    for (std::size_t j = 1; j < margins.size(); ++j)
        if (margins.cells(j) > margins.cells(most)) most = j;
    if (margins.size())
        std::rotate(order_.begin(), order_.begin() + tallies.offsets()[most],
                    order_.begin() + tallies.offsets()[most + 1]);
    if (gram_) matrix_.resize(count_ * count_);
    if (exact_) {
        lower_.resize((count_ + 1) * count_);
        column_.resize(count_ + 1);
    }
    if (!exact_)
        for (auto* each : {&scaling_, &residual_, &scaled_, &along_, &product_}) each->resize(count_);
}

void LinearSystem::solve(const double* inner, const double* ridge, const double* right, double accuracy,
                         double* direction) {
    if (gram_) tallies_.gram(inner, matrix_.data());
    if (exact_)
        solve_exactly(ridge, right, direction);
    else
        solve_by_gradients(inner, ridge, right, accuracy, direction);
}

void LinearSystem::solve_exactly(const double* ridge, const double* right, double* direction) {
    const std::size_t n = count_;
    double* const last = lower_.data() + n * n;
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t a = order_[i];
        const double* const row = matrix_.data() + a * n;
        double* const out = lower_.data() + i * n;
        for (std::size_t j = 0; j < i; ++j) out[j] = row[order_[j]];
        out[i] = row[a] + ridge[a];
        last[i] = right[a];
    }
    for (std::size_t i = 0; i < n; ++i) {
        if (ridge[order_[i]] >= 0) continue;
        std::fill_n(lower_.data() + i * n, i, 0.0);
        for (std::size_t k = i; k < n; ++k) lower_[k * n + i] = k == i;
    }
    factor(lower_.data(), n, column_.data());
    substitute_back(lower_.data(), n);
    for (std::size_t i = 0; i < n; ++i) direction[order_[i]] = ridge[order_[i]] < 0 ? 0 : last[i];
}

void LinearSystem::multiply(const double* inner, const double* ridge, const double* vector, double* product) {
    if (gram_) {
        for (std::size_t i = 0; i < count_; ++i) {
            const double* const row = matrix_.data() + i * count_;
            double sums[4] = {};
            std::size_t j = 0;
            for (; j + 4 <= count_; j += 4)
                for (std::size_t k = 0; k < 4; ++k) sums[k] += row[j + k] * vector[j + k];
            for (; j < count_; ++j) sums[0] += row[j] * vector[j];
            product[i] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
        }
    } else {
        rows_.resize(tallies_.rows());
        tallies_.potentials(vector, rows_.data());
        for (std::size_t i = 0; i < rows_.size(); ++i) rows_[i] *= inner[i];
        tallies_.sums(rows_.data(), product);
    }
    for (std::size_t q = 0; q < count_; ++q)
        product[q] = ridge[q] < 0 ? 0 : product[q] + ridge[q] * vector[q];
}

void LinearSystem::solve_by_gradients(const double* inner, const double* ridge, const double* right,
                                      double accuracy, double* direction) {
    tallies_.sums(inner, scaling_.data());
    for (std::size_t q = 0; q < count_; ++q) {
        scaling_[q] = ridge[q] < 0 ? 0 : 1 / (scaling_[q] + ridge[q]);
        residual_[q] = right[q];
        along_[q] = scaled_[q] = scaling_[q] * right[q];
        direction[q] = 0;
    }
    double size = dot(residual_, scaled_);
    const double share = std::min(0.01, accuracy / 10), enough = size * share * share;
    for (int k = 0; k < most_inner && size > enough; ++k) {
        multiply(inner, ridge, along_.data(), product_.data());
        const double length = size / dot(along_, product_);
        for (std::size_t q = 0; q < count_; ++q) {
            direction[q] += length * along_[q];
            residual_[q] -= length * product_[q];
            scaled_[q] = scaling_[q] * residual_[q];
        }
        const double before = size;
        size = dot(residual_, scaled_);
        for (std::size_t q = 0; q < count_; ++q) along_[q] = scaled_[q] + size / before * along_[q];
    }
}

}  // namespace privmw
