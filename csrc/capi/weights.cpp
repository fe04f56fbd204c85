// Single-machine versions of privmw/kernels/weights.py and projection.py.
#include "core/weights.hpp"

#include <bit>
#include <cmath>

#include "capi/guard.hpp"
#include "core/tilt.hpp"
#include "draw/natural.hpp"

namespace privmw::capi {

namespace {

constexpr int mass_bits = 60;
constexpr Mass least_total = Mass{1} << 58;

int bit_length(Wide value) {
    const auto high = static_cast<std::uint64_t>(value >> 64);
    return high ? 64 + std::bit_width(high) : std::bit_width(static_cast<std::uint64_t>(value));
}

bool in_range(Wide total) {
    return total >= static_cast<Wide>(least_total) && total <= static_cast<Wide>(most_total);
}

void require_rows(std::size_t rows) {
    require(rows >= 1 && rows <= most_rows, PRIVMW_SIZE);
}

// The double nearest to 2^bits / mass, from 1/2 to 1, where mass has bits + 1 bits.
double inverse(Wide mass, int bits) {
    if ((mass & (mass - 1)) == 0) return 1;
    // The quotient has infinitely many digits: 64 of them and a sticky bit round correctly.
    const auto digits = draw::scaled_ratio(draw::Natural::power_of_two(static_cast<std::size_t>(bits)),
                                           draw::Natural::from_wide(mass), 64);
    return std::ldexp(static_cast<double>(digits.low_word() | 1), -64);
}

}  // namespace

}  // namespace privmw::capi

using namespace privmw;
using namespace privmw::capi;

privmw_status privmw_rescale(double* weights, size_t rows, int threads, int64_t* total) noexcept {
    return guarded([&] {
        require_pointers({weights, total});
        require_rows(rows);
        require_threads(threads);
        const double most = heaviest(weights, rows, threads);
        require(most > 0, PRIVMW_VALUE);  // or NaN
        int exponent = 0;
        std::frexp(most, &exponent);
        exponent = -exponent;  // the heaviest row starts in [1/2, 1)
        Wide mass = total_mass(weights, rows, exponent, threads);
        do {
            exponent += mass_bits + 1 - bit_length(mass);
            mass = total_mass(weights, rows, exponent, threads);
        } while (!in_range(mass));
        shift(weights, rows, exponent, threads);
        *total = static_cast<Mass>(mass);
    });
}

privmw_status privmw_to_masses(const double* weights, size_t rows, int threads, int64_t* masses,
                               int64_t* total) noexcept {
    return guarded([&] {
        require_pointers({weights, masses, total});
        require_rows(rows);
        require_threads(threads);
        *total = to_masses(weights, rows, threads, masses);
        require(*total >= least_total && *total <= most_total, PRIVMW_RESCALE);
    });
}

privmw_status privmw_multiply(double* weights, size_t rows, const uint32_t* which, size_t count,
                              double factor, int threads, int64_t* changes, int64_t* total) noexcept {
    return guarded([&] {
        require_pointers({weights, which, changes, total});
        require_rows(rows);
        require_threads(threads);
        require(count <= rows, PRIVMW_SIZE);
        require(factor >= 0x1p-32 && factor <= 0x1p32, PRIVMW_VALUE);  // nor NaN
        require(*total >= least_total && *total <= most_total, PRIVMW_VALUE);
        for (std::size_t i = 0; i < count; ++i)
            require(which[i] < rows && (i == 0 || which[i - 1] < which[i]), PRIVMW_VALUE);
        const Gains gains = multiply(weights, {which, count}, factor, threads, changes);
        require(gains.before <= *total, PRIVMW_VALUE);
        // As total_after of privmw/kernels/weights.py: a factor below 1.9 keeps every sum below 2^63, for a
        // larger one the rows' total decides, with half a unit per row for rounding.
        const double most = static_cast<double>(*total) +
                            (static_cast<double>(gains.before) + 0.5 * static_cast<double>(count)) * factor;
        require(factor < 1.9 || most <= static_cast<double>(most_total), PRIVMW_RESCALE);
        const auto after =
            static_cast<Mass>(static_cast<std::uint64_t>(*total) + static_cast<std::uint64_t>(gains.gained));
        require(after >= least_total && after <= most_total, PRIVMW_RESCALE);
        *total = after;
    });
}

privmw_status privmw_tilt(const double* base, const double* potentials, size_t rows, int threads,
                          double* weights, double* log_total) noexcept {
    return guarded([&] {
        require_pointers({base, potentials, weights, log_total});
        require_rows(rows);
        require_threads(threads);
        const double most = most_potential(base, potentials, rows, threads);
        require(std::isfinite(most), PRIVMW_VALUE);
        int exponent = 0;
        std::frexp(tilt(base, potentials, most, rows, threads, weights), &exponent);
        const Wide mass = total_mass(weights, rows, -exponent, threads);
        // The total is 2^bits / factor units of 2^-(60 - exponent).
        const int bits = bit_length(mass) - 1, up = mass_bits - exponent - bits;
        const double factor = inverse(mass, bits);
        normalise(weights, rows, up, factor, threads);
        *log_total = most - (std::log(factor) + up * std::log(2));
    });
}
