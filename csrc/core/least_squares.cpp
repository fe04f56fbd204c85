#include "core/least_squares.hpp"

#include <algorithm>
#include <cmath>

#include "core/linear.hpp"

namespace privmw {

namespace {

constexpr double ridge_share = 1e-10;  // of a query's curvature: exact queries may be redundant
constexpr int most_idle = 20;          // steps without gain
constexpr double slope_left = 0.1;     // share of the first slope at which the line search ends

double clip(double value, double lower, double upper) {
    return std::min(std::max(value, lower), upper);
}

class Newton {
  public:
    Newton(const Tallies& tallies, const FitTargets& rows, const FitTargets& queries, double* weights,
           double* multipliers);
    Solution run(const Stop& stop);

  private:
    void evaluate();       // weights, inner, missing and left, from potentials and multipliers
    double value() const;  // of the dual
    void find_direction(double accuracy);  // from inner and missing
    double slope(double t) const;          // along the direction
    double length(double first) const;     // the length of a step along it
    void refresh() { tallies_.potentials(multipliers_, potentials_.data()); }

    const Tallies& tallies_;
    const FitTargets &rows_, &queries_;
    double *weights_, *multipliers_;
    std::size_t size_, count_;
    std::vector<double> potentials_, along_, inner_;                     // one per row
    std::vector<double> ridge_, extra_, direction_, missing_, scratch_;  // one per query; ridge -1: ignored
    LinearSystem system_;
    double left_ = 0;
};

Newton::Newton(const Tallies& tallies, const FitTargets& rows, const FitTargets& queries, double* weights,
               double* multipliers)
    : tallies_(tallies),
      rows_(rows),
      queries_(queries),
      weights_(weights),
      multipliers_(multipliers),
      size_(tallies.rows()),
      count_(tallies.count()),
      potentials_(size_),
      along_(size_),
      inner_(size_),
      ridge_(count_),
      extra_(count_),
      direction_(count_),
      missing_(count_),
      scratch_(count_),
      system_(tallies) {
    for (std::size_t i = 0; i < size_; ++i) inner_[i] = rows_.variance[i];
    tallies_.sums(inner_.data(), extra_.data());
    const double most = count_ ? *std::max_element(extra_.begin(), extra_.end()) : 0;
    for (std::size_t q = 0; q < count_; ++q) {
        const bool used = queries_.variance[q] < infinity;
        ridge_[q] = used ? queries_.variance[q] : -1;
        extra_[q] = ridge_share * std::max(extra_[q], 1e-6 * most);
        if (!used) multipliers_[q] = 0;
    }
}

void Newton::evaluate() {
    for (std::size_t i = 0; i < size_; ++i) {
        const double variance = rows_.variance[i], lower = rows_.lower[i], upper = rows_.upper[i];
        const double free = rows_.centre[i] - variance * potentials_[i];
        weights_[i] = clip(free, lower, upper);
        inner_[i] = free > lower && free < upper ? variance : 0;
    }
    tallies_.sums(weights_, missing_.data());
    left_ = 0;
    for (std::size_t q = 0; q < count_; ++q) {
        const double wanted = queries_.centre[q] + ridge_[q] * multipliers_[q];
        missing_[q] = ridge_[q] < 0 ? 0 : missing_[q] - clip(wanted, queries_.lower[q], queries_.upper[q]);
        left_ = std::max(left_, std::abs(missing_[q]));
    }
}

double Newton::value() const {
    double sum = 0;
    for (std::size_t i = 0; i < size_; ++i) {
        const double far = weights_[i] - rows_.centre[i];
        sum += far * far / (2 * rows_.variance[i]) + potentials_[i] * weights_[i];
    }
    for (std::size_t q = 0; q < count_; ++q) {
        if (ridge_[q] < 0) continue;
        const double wanted = queries_.centre[q] + ridge_[q] * multipliers_[q];
        const double fitted = clip(wanted, queries_.lower[q], queries_.upper[q]);
        const double far = fitted - queries_.centre[q];
        sum += (ridge_[q] > 0 ? far * far / (2 * ridge_[q]) : 0) - multipliers_[q] * fitted;
    }
    return sum;
}

void Newton::find_direction(double accuracy) {
    for (std::size_t q = 0; q < count_; ++q) {
        const double wanted = queries_.centre[q] + ridge_[q] * multipliers_[q];
        const bool free = wanted > queries_.lower[q] && wanted < queries_.upper[q];
        scratch_[q] = ridge_[q] < 0 ? -1 : extra_[q] + (free ? ridge_[q] : 0);
    }
    system_.solve(inner_.data(), scratch_.data(), missing_.data(), accuracy, direction_.data());
}

double Newton::slope(double t) const {
    double sum = 0;
    for (std::size_t q = 0; q < count_; ++q) {
        if (ridge_[q] < 0) continue;
        const double wanted = queries_.centre[q] + ridge_[q] * (multipliers_[q] + t * direction_[q]);
        sum += direction_[q] * clip(wanted, queries_.lower[q], queries_.upper[q]);
    }
    for (std::size_t i = 0; i < size_; ++i) {
        const double free = rows_.centre[i] - rows_.variance[i] * (potentials_[i] + t * along_[i]);
        sum -= along_[i] * clip(free, rows_.lower[i], rows_.upper[i]);
    }
    return sum;
}

// The slope increases from `first`: where little of it is left; 0 if it is not negative.
double Newton::length(double first) const {
    if (!(first < 0)) return 0;
    double low = 0, at_low = first, high = 1, at_high = slope(1);
    while (at_high < first / 2 && high < 0x1p30) {
        low = high, at_low = at_high, high *= 2;
        at_high = slope(high);
    }
    if (at_high <= -slope_left * first) return high;
    int side = 0;
    for (int k = 0; k < 60; ++k) {  // regula falsi (Illinois)
        const double t = low + (high - low) * (at_low / (at_low - at_high)), here = slope(t);
        if (std::abs(here) <= -slope_left * first || !(t > low && t < high)) return t;
        if (here < 0) {
            low = t, at_low = here;
            if (side < 0) at_high /= 2;
            side = -1;
        } else {
            high = t, at_high = here;
            if (side > 0) at_low /= 2;
            side = 1;
        }
    }
    return low;
}

Solution Newton::run(const Stop& stop) {
    refresh();
    double worst = 0, best = infinity;
    int idle = 0;
    bool fresh = true;
    for (int step = 0;;) {
        evaluate();
        worst = std::max(worst, left_);
        idle = left_ < best ? 0 : idle + 1;
        best = std::min(best, left_);
        const bool done = left_ <= stop.tolerance;
        if (done && !fresh) {  // steps accumulate rounding errors: recompute the potentials
            refresh();
            fresh = true;
            continue;
        }
        if (done || step == stop.steps || idle == most_idle ||
            (stop.limit < infinity && value() > stop.limit))
            return {left_, value(), step};
        find_direction(std::max(left_ / worst, stop.tolerance / left_));
        tallies_.potentials(direction_.data(), along_.data());
        double first = 0;
        for (std::size_t q = 0; q < count_; ++q) first -= direction_[q] * missing_[q];
        const double t = length(first);
        if (t == 0) return {left_, value(), step};
        for (std::size_t q = 0; q < count_; ++q) multipliers_[q] += t * direction_[q];
        for (std::size_t i = 0; i < size_; ++i) potentials_[i] += t * along_[i];
        fresh = false;
        ++step;
    }
}

}  // namespace

Solution solve(const Tallies& tallies, const FitTargets& rows, const FitTargets& queries, const Stop& stop,
               double* weights, double* multipliers) {
    return Newton(tallies, rows, queries, weights, multipliers).run(stop);
}

}  // namespace privmw
