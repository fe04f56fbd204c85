#include "core/tilt.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "core/parallel.hpp"

namespace privmw {

namespace {

constexpr std::size_t block = std::size_t{1} << 14;  // rows of a task
constexpr std::size_t tile = 256;                    // rows whose exponentials are taken together
constexpr double least_normal = -708;                // exp of it is still a normal number
constexpr double infinity = std::numeric_limits<double>::infinity();

// exp(x) for x in [-708, 0], within 1 ulp: 2^n * exp(r), |r| <= ln(2) / 2, and Taylor's polynomial of degree
// 13, whose rest is below 2^-57. Written so that compilers take several at a time on any instruction set;
// the same bits on every machine, which the C library does not promise.
inline double exp_of_negative(double x) {
    constexpr double shift = 0x1.8p52;  // adding it rounds to an integer, which then stands in the low bits
    const double shifted = x * 0x1.71547652b82fep0 + shift;  // 1 / ln(2)
    const double n = shifted - shift;
    const double r = (x - n * 0x1.62e42fefa0000p-1) - n * 0x1.cf79abc9e3b3ap-40;  // ln(2) in two parts
    double p = 1.0 / 6227020800;
    p = p * r + 1.0 / 479001600;
    p = p * r + 1.0 / 39916800;
    p = p * r + 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    const double power = 1 + (r + r * r * p);
    return std::bit_cast<double>(std::bit_cast<std::uint64_t>(power) +
                                 (std::bit_cast<std::uint64_t>(shifted) << 52));
}

// Writes base * exp(potential - most) for up to a tile of rows; returns their sum.
double tilt_tile(const double* base, const double* potentials, double most, std::size_t count,
                 double* weights) {
    double below[tile], least = 0;
    for (std::size_t i = 0; i < count; ++i) {
        // Rows of base zero may lie above: whatever they are, they stay zero.
        const double x = potentials[i] - most;
        below[i] = x < 0 ? x : 0;
        least = below[i] < least ? below[i] : least;
    }
    if (least >= least_normal)
        for (std::size_t i = 0; i < count; ++i) weights[i] = base[i] * exp_of_negative(below[i]);
    else
        for (std::size_t i = 0; i < count; ++i) weights[i] = base[i] * std::exp(below[i]);
    double sums[4] = {};
    std::size_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (std::size_t k = 0; k < 4; ++k) sums[k] += weights[i + k];
    for (; i < count; ++i) sums[0] += weights[i];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// The largest potential of a row with base above zero.
double most_potential(const double* base, const double* potentials, std::size_t count) {
    constexpr double largest = std::numeric_limits<double>::max();
    double most = -infinity;
    bool sound_base = true, sound_potentials = true;
    for (std::size_t i = 0; i < count; ++i) {
        sound_base &= base[i] >= 0 && base[i] <= largest;
        sound_potentials &= std::abs(potentials[i]) <= largest;
        const double here = base[i] > 0 ? potentials[i] : -infinity;
        most = here > most ? here : most;
    }
    if (!sound_base) throw std::invalid_argument("base must be finite, none negative and not all zero");
    if (!sound_potentials) throw std::invalid_argument("potentials must be finite");
    return most;
}

}  // namespace

double tilt(const double* base, const double* potentials, std::size_t rows, int threads, double* weights) {
    const std::size_t blocks = (rows + block - 1) / block;
    std::vector<double> found(blocks);
    const auto for_each_block = [&](auto&& body) {
        for_each_task(static_cast<std::int64_t>(blocks), threads, [&](std::int64_t b) {
            const std::size_t first = static_cast<std::size_t>(b) * block;
            found[b] = body(first, std::min(rows, first + block));
        });
    };
    for_each_block([&](std::size_t first, std::size_t last) {
        return most_potential(base + first, potentials + first, last - first);
    });
    const double most = blocks ? *std::max_element(found.begin(), found.end()) : -infinity;
    if (most == -infinity) throw std::invalid_argument("base must be finite, none negative and not all zero");
    for_each_block([&](std::size_t first, std::size_t last) {
        double sum = 0;
        for (std::size_t row = first; row < last; row += tile)
            sum += tilt_tile(base + row, potentials + row, most, std::min(tile, last - row), weights + row);
        return sum;
    });
    double total = 0;
    for (double sum : found) total += sum;
    if (total == infinity) throw std::invalid_argument("base must have a finite total");
    for_each_block([&](std::size_t first, std::size_t last) {
        // Divided, not multiplied: the inverse of a tiny total would overflow.
        for (std::size_t row = first; row < last; ++row) weights[row] /= total;
        return 0.0;
    });
    return most + std::log(total);
}

}  // namespace privmw
