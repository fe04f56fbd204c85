#include "core/tilt.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/exponential.hpp"
#include "core/parallel.hpp"
#include "core/power_of_two.hpp"

namespace privmw {

namespace {

constexpr std::size_t tilt_block = std::size_t{1} << 14;  // rows of a task
constexpr std::size_t tilt_rows = 256;                    // rows whose exponentials are taken together

// base * exp(x) where exp(x) is subnormal: as a square, since times base it may be normal again.
double weight_of_deep(double base, double x) {
    const double root = x > 2 * least_normal ? exp_of_negative(0.5 * x) : 0;
    return base * root * root;
}

// Writes base * exp(potential - most) for up to tilt_rows rows; returns the largest.
double tilt_tile(const double* base, const double* potentials, double most, std::size_t count,
                 double* weights) {
    double below[tilt_rows], least = 0;
    for (std::size_t i = 0; i < count; ++i) {
        // Rows of base zero may have potentials above `most`: they stay zero.
        const double x = potentials[i] - most;
        below[i] = x < 0 ? x : 0;
        least = below[i] < least ? below[i] : least;
    }
    for (std::size_t i = 0; i < count; ++i) weights[i] = base[i] * exp_of_negative(below[i]);
    if (least < least_normal)
        for (std::size_t i = 0; i < count; ++i)
            if (below[i] < least_normal) weights[i] = weight_of_deep(base[i], below[i]);
    double heaviest[4] = {};
    std::size_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (std::size_t k = 0; k < 4; ++k) heaviest[k] = std::max(heaviest[k], weights[i + k]);
    for (; i < count; ++i) heaviest[0] = std::max(heaviest[0], weights[i]);
    return std::max(std::max(heaviest[0], heaviest[1]), std::max(heaviest[2], heaviest[3]));
}

// The largest potential of a row with base above zero; NaN or infinity as in most_potential.
double most_of(const double* base, const double* potentials, std::size_t count) {
    constexpr double largest = std::numeric_limits<double>::max();
    double most = -infinity;
    bool valid_base = true, valid_potentials = true;
    for (std::size_t i = 0; i < count; ++i) {
        valid_base &= base[i] >= 0 && base[i] <= largest;
        valid_potentials &= std::abs(potentials[i]) <= largest;
        const double here = base[i] > 0 ? potentials[i] : -infinity;
        most = here > most ? here : most;
    }
    if (!valid_base) return std::numeric_limits<double>::quiet_NaN();
    return valid_potentials ? most : infinity;
}

// The largest body(first, last) over blocks of rows, at least `least`; NaN if one is.
template <class Body>
double largest_of_blocks(std::size_t rows, int threads, double least, Body&& body) {
    const std::size_t blocks = (rows + tilt_block - 1) / tilt_block;
    std::vector<double> found(blocks);
    for_each_task(static_cast<std::int64_t>(blocks), threads, [&](std::int64_t b) {
        const std::size_t first = static_cast<std::size_t>(b) * tilt_block;
        found[b] = body(first, std::min(rows, first + tilt_block));
    });
    for (double each : found) least = each > least || std::isnan(each) ? each : least;
    return least;
}

}  // namespace

double most_potential(const double* base, const double* potentials, std::size_t rows, int threads) {
    return largest_of_blocks(rows, threads, -infinity, [&](std::size_t first, std::size_t last) {
        return most_of(base + first, potentials + first, last - first);
    });
}

double tilt(const double* base, const double* potentials, double most, std::size_t rows, int threads,
            double* weights) {
    return largest_of_blocks(rows, threads, 0, [&](std::size_t first, std::size_t last) {
        double heaviest = 0;
        for (std::size_t row = first; row < last; row += tilt_rows)
            heaviest = std::max(heaviest, tilt_tile(base + row, potentials + row, most,
                                                    std::min(tilt_rows, last - row), weights + row));
        return heaviest;
    });
}

void normalise(double* weights, std::size_t rows, int exponent, double factor, int threads) {
    const PowerOfTwo power(exponent);
    for_each_task(static_cast<std::int64_t>((rows + tilt_block - 1) / tilt_block), threads,
                  [&](std::int64_t b) {
                      const std::size_t first = static_cast<std::size_t>(b) * tilt_block,
                                        last = std::min(rows, first + tilt_block);
                      for (std::size_t row = first; row < last; ++row)
                          weights[row] = power * weights[row] * factor;
                  });
}

}  // namespace privmw
