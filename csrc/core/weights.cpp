#include "core/weights.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>
#include <stdexcept>

#include "core/parallel.hpp"
#include "core/power_of_two.hpp"

namespace privmw {

namespace {

constexpr double scale = 0x1p60;
constexpr double most_weight =
    7.75;  // its mass fits; a factor below 1.9 brings no weight of at most 4 above it
constexpr std::size_t weights_block = std::size_t{1} << 16;

// The default rounding mode: to nearest, ties to even. In range for weights below 8.
Mass mass_of(double weight) {
    return std::llrint(weight * scale);
}

// The new weight of a row of weight `before`: a product that has underflowed to zero is lifted too.
double lifted(double before, double now) {
    return before > 0 && now < lightest_weight ? lightest_weight : now;
}

// body(first, last) over blocks of rows.
template <class Body>
void for_each_block(std::size_t rows, int threads, Body&& body) {
    const auto blocks = static_cast<std::int64_t>((rows + weights_block - 1) / weights_block);
    for_each_task(blocks, threads, [&](std::int64_t b) {
        const std::size_t first = static_cast<std::size_t>(b) * weights_block;
        body(first, std::min(rows, first + weights_block));
    });
}

// The sum of body(first, last) over blocks of rows.
template <class Sum, class Body>
Sum sum_over_blocks(std::size_t rows, int threads, Body&& body) {
    Sum total{};
    std::mutex mutex;
    for_each_block(rows, threads, [&](std::size_t first, std::size_t last) {
        const Sum sum = body(first, last);
        std::lock_guard lock(mutex);
        total += sum;
    });
    return total;
}

struct Heaviest {
    double weight = 0;
    bool sound = true;
    void operator+=(const Heaviest& other) {
        weight = std::max(weight, other.weight);
        sound &= other.sound;
    }
};

struct WideGains {
    Wide before = 0;
    std::uint64_t gained = 0;
    void operator+=(const WideGains& other) { before += other.before, gained += other.gained; }
};

}  // namespace

double heaviest(const double* weights, std::size_t rows, int threads) {
    const auto found = sum_over_blocks<Heaviest>(rows, threads, [&](std::size_t first, std::size_t last) {
        double heaviest = 0;
        bool sound = true;
        for (std::size_t r = first; r < last; ++r) {
            sound &= weights[r] >= 0 && weights[r] <= std::numeric_limits<double>::max();
            heaviest = std::max(heaviest, weights[r]);
        }
        return Heaviest{heaviest, sound};
    });
    return found.sound ? found.weight : std::numeric_limits<double>::quiet_NaN();
}

Wide total_mass(const double* weights, std::size_t rows, int exponent, int threads) {
    const PowerOfTwo power(exponent);
    return sum_over_blocks<Wide>(rows, threads, [&](std::size_t first, std::size_t last) {
        Wide sum = 0;
        for (std::size_t r = first; r < last; ++r)
            sum += static_cast<std::uint64_t>(mass_of(power * weights[r]));
        return sum;
    });
}

void shift(double* weights, std::size_t rows, int exponent, int threads) {
    const PowerOfTwo power(exponent);
    for_each_block(rows, threads, [&](std::size_t first, std::size_t last) {
        for (std::size_t r = first; r < last; ++r) weights[r] = lifted(weights[r], power * weights[r]);
    });
}

Mass to_masses(const double* weights, std::size_t rows, int threads, Mass* masses) {
    std::atomic<bool> in_scale = true;
    const Wide total = sum_over_blocks<Wide>(rows, threads, [&](std::size_t first, std::size_t last) {
        Wide sum = 0;
        bool sound = true;
        for (std::size_t r = first; r < last; ++r) {
            sound &= weights[r] >= 0 && weights[r] <= 4;
            masses[r] = mass_of(weights[r]);
            sum += static_cast<std::uint64_t>(masses[r]);
        }
        if (!sound) in_scale = false;
        return sum;
    });
    return in_scale && total <= static_cast<Wide>(most_total) ? static_cast<Mass>(total) : most_total + 1;
}

void signed_masses(const double* weights, const double* values, std::size_t rows, int exponent, int threads,
                   Mass* masses) {
    const PowerOfTwo power(exponent);
    for_each_block(rows, threads, [&](std::size_t first, std::size_t last) {
        for (std::size_t r = first; r < last; ++r) masses[r] = std::llrint(power * (weights[r] * values[r]));
    });
}

Wide total_magnitude(const Mass* masses, std::size_t rows, int threads) {
    return sum_over_blocks<Wide>(rows, threads, [&](std::size_t first, std::size_t last) {
        std::uint64_t high = 0, low = 0;  // 2^16 of either have a sum below 2^64
        for (std::size_t r = first; r < last; ++r) {
            const auto mass = static_cast<std::uint64_t>(masses[r]);
            const std::uint64_t magnitude = masses[r] < 0 ? 0 - mass : mass;
            high += magnitude >> 32;
            low += magnitude & 0xffffffff;
        }
        return (Wide{high} << 32) + low;
    });
}

Gains multiply(double* weights, std::span<const Row> rows, double factor, int threads, Mass* changes) {
    std::atomic<bool> in_scale = true;
    const auto sums =
        sum_over_blocks<WideGains>(rows.size(), threads, [&](std::size_t first, std::size_t last) {
            WideGains sum;
            bool sound = true;
            for (std::size_t i = first; i < last; ++i) {
                // Scattered rows miss the cache one by one; prefetched, they arrive together.
                __builtin_prefetch(weights + rows[std::min(i + 24, last - 1)], 1);
                double& weight = weights[rows[i]];
                const double updated = lifted(weight, weight * factor);
                const auto before = static_cast<std::uint64_t>(mass_of(weight));
                const auto after = static_cast<std::uint64_t>(mass_of(std::min(updated, most_weight)));
                sound &= weight >= 0 && before <= static_cast<std::uint64_t>(most_total);
                changes[i] = static_cast<Mass>(after - before);
                sum.before += before;
                sum.gained += after - before;
                weight = updated;
            }
            if (!sound) in_scale = false;
            return sum;
        });
    if (!in_scale || sums.before > static_cast<Wide>(most_total))
        throw std::invalid_argument("weights must be rescaled first: each from 0 to 4, together at most 4");
    return {static_cast<Mass>(sums.before), static_cast<Mass>(sums.gained)};
}

}  // namespace privmw
