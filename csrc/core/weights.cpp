#include "core/weights.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <mutex>
#include <stdexcept>

#include "core/parallel.hpp"

namespace privmw {

namespace {

using Wide =
    unsigned __int128;  // a block of 2^16 masses may exceed 64 bits before it is known to be in range

constexpr double scale = 0x1p60;
constexpr std::size_t block = std::size_t{1} << 16;

// The default rounding mode: to nearest, ties to even. In range for weights below 8.
Mass mass_of(double weight) {
    return std::llrint(weight * scale);
}

// What a row of weight `before` weighs now: a product that has underflowed to zero is lifted too.
double lifted(double before, double now) {
    return before > 0 && now < lightest_weight ? lightest_weight : now;
}

// weight * 2^exponent in two steps, so that the factor itself never overflows. Rounds only where the result
// is lifted anyway.
struct PowerOfTwo {
    explicit PowerOfTwo(int exponent)
        : first(std::ldexp(1.0, exponent / 2)), second(std::ldexp(1.0, exponent - exponent / 2)) {}
    double operator*(double weight) const { return weight * first * second; }
    double first, second;
};

// Runs body(first, last) on fixed blocks of rows and adds up what it returns.
template <class Sum, class Body>
Sum sum_over_blocks(std::size_t rows, int threads, Body&& body) {
    Sum total{};
    std::mutex mutex;
    const auto blocks = static_cast<std::int64_t>((rows + block - 1) / block);
    for_each_task(blocks, threads, [&](std::int64_t b) {
        const std::size_t first = static_cast<std::size_t>(b) * block;
        const Sum sum = body(first, std::min(rows, first + block));
        std::lock_guard lock(mutex);
        total += sum;
    });
    return total;
}

Wide total_after(const double* weights, std::size_t rows, int exponent, int threads) {
    const PowerOfTwo power(exponent);
    return sum_over_blocks<Wide>(rows, threads, [&](std::size_t first, std::size_t last) {
        Wide sum = 0;
        for (std::size_t r = first; r < last; ++r)
            sum += static_cast<std::uint64_t>(mass_of(power * weights[r]));
        return sum;
    });
}

// Of the rows of an update.
struct Sums {
    Wide before = 0;
    std::uint64_t gained = 0;
    void operator+=(const Sums& other) { before += other.before, gained += other.gained; }
};

int bit_width(Wide value) {
    const auto high = static_cast<std::uint64_t>(value >> 64);
    return high ? 64 + std::bit_width(high) : std::bit_width(static_cast<std::uint64_t>(value));
}

bool in_range(Mass total) {
    return total >= least_total && total <= most_total;
}

}  // namespace

Mass to_masses(const double* weights, std::size_t rows, int threads, Mass* masses) {
    const Wide total = sum_over_blocks<Wide>(rows, threads, [&](std::size_t first, std::size_t last) {
        Wide sum = 0;
        for (std::size_t r = first; r < last; ++r) {
            if (!(weights[r] >= 0 && weights[r] <= 4))
                throw std::invalid_argument("weights must be rescaled first: each from 0 to 4");
            masses[r] = mass_of(weights[r]);
            sum += static_cast<std::uint64_t>(masses[r]);
        }
        return sum;
    });
    if (total < static_cast<Wide>(least_total) || total > static_cast<Wide>(most_total))
        throw std::invalid_argument("weights must be rescaled first: their total must be from 2^-2 to 2^2");
    return static_cast<Mass>(total);
}

Mass rescale(double* weights, std::size_t rows, int threads) {
    double heaviest = 0;
    bool sound = true;
    for (std::size_t r = 0; r < rows; ++r) {
        sound &= weights[r] >= 0 && weights[r] <= std::numeric_limits<double>::max();
        heaviest = std::max(heaviest, weights[r]);
    }
    if (!sound || heaviest == 0)
        throw std::invalid_argument("weights must be finite, none negative and not all zero");
    // Start with the heaviest row in [1/2, 1). The total is an exact integer, so each shift depends on the
    // weights alone; a second one is needed only where rows too light to count before make up most of the
    // total.
    int exponent = -(std::ilogb(heaviest) + 1);
    Wide total = total_after(weights, rows, exponent, threads);
    do {
        exponent += mass_bits + 1 - bit_width(total);
        total = total_after(weights, rows, exponent, threads);
    } while (total < static_cast<Wide>(least_total) || total > static_cast<Wide>(most_total));
    const PowerOfTwo power(exponent);
    return sum_over_blocks<Mass>(rows, threads, [&](std::size_t first, std::size_t last) {
        Mass sum = 0;
        for (std::size_t r = first; r < last; ++r) {
            weights[r] = lifted(weights[r], power * weights[r]);
            sum += mass_of(weights[r]);
        }
        return sum;
    });
}

Update multiply(double* weights, std::size_t all_rows, std::span<const Row> rows, double factor, Mass total,
                int threads, Mass* changes) {
    // A factor below 1.9 keeps every sum below 2^63. For a larger one the matching total tells, half a unit a
    // row included.
    bool fits = factor < 1.9;
    if (!fits) {
        const Wide matching =
            sum_over_blocks<Wide>(rows.size(), threads, [&](std::size_t first, std::size_t last) {
                Wide sum = 0;
                for (std::size_t i = first; i < last; ++i)
                    sum += static_cast<std::uint64_t>(mass_of(weights[rows[i]]));
                return sum;
            });
        const double bound =
            (static_cast<double>(matching) + 0.5 * static_cast<double>(rows.size())) * factor;
        fits = static_cast<double>(total) + bound <= static_cast<double>(most_total);
    }
    std::atomic<bool> in_scale = true;
    const Sums sums = sum_over_blocks<Sums>(rows.size(), threads, [&](std::size_t first, std::size_t last) {
        Sums sum;
        bool sound = true;
        for (std::size_t i = first; i < last; ++i) {
            // Scattered rows miss the cache one by one; asked for ahead, they come together.
            __builtin_prefetch(weights + rows[std::min(i + 24, last - 1)], 1);
            double& weight = weights[rows[i]];
            const double updated = lifted(weight, weight * factor);
            // Unsigned: a mass that does not fit is some other number, and nobody uses it.
            const auto before = static_cast<std::uint64_t>(mass_of(weight));
            const std::uint64_t change = static_cast<std::uint64_t>(mass_of(updated)) - before;
            sound &= weight >= 0 && before <= static_cast<std::uint64_t>(most_total);
            changes[i] = static_cast<Mass>(change);
            sum.before += before;
            sum.gained += change;
            weight = updated;
        }
        if (!sound) in_scale = false;
        return sum;
    });
    if (!in_scale) throw std::invalid_argument("weights must be rescaled first: each from 0 to 4");
    if (sums.before > static_cast<Wide>(total))
        throw std::invalid_argument("total must be the total of the weights' masses");
    const auto gained = static_cast<Mass>(sums.gained);
    if (fits && in_range(total + gained)) return {total + gained, false};
    std::fill_n(changes, rows.size(), 0);
    return {rescale(weights, all_rows, threads), true};
}

}  // namespace privmw
