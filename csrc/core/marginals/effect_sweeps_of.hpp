// The sweeps. Each file that includes this is compiled for its own kind of processor: everything here has
// internal linkage.
#pragma once

#include "core/marginals/effect_sweeps.hpp"

namespace privmw {
namespace {

struct EffectSweepsHere {
    static void potentials(const RowEffects& lists, std::span<const Row> rows, const Wrapping* values,
                           PowerOfTwo unit, double* potentials) {
        for (std::size_t i = 0; i < rows.size(); ++i) {
            const Wrapping low = gather(lists.low_starts, lists.low, rows[i], values);
            const Wrapping high = gather(lists.high_starts, lists.high, rows[i], values);
            potentials[i] = unit * to_double(values[0] + low + high);
        }
    }

    static void sum(const RowEffects& lists, std::span<const Row> rows, const Mass* masses, Wrapping* sums) {
        for (std::size_t i = 0; i < rows.size(); ++i) {
            const auto mass = static_cast<Wrapping>(masses[i]);
            sums[0] += mass;
            add(lists.low_starts, lists.low, rows[i], mass, sums);
            add(lists.high_starts, lists.high, rows[i], mass, sums);
        }
    }

    static EffectSweeps all() { return {potentials, sum}; }

  private:
    template <class Number>
    static inline Wrapping gather(const std::vector<std::int64_t>& starts, const std::vector<Number>& listed,
                                  Row row, const Wrapping* values) {
        const Number* const own = listed.data() + starts[row];
        const auto count = static_cast<std::size_t>(starts[row + 1] - starts[row]);
        Wrapping sum = 0;
        // Numbers are below 2^31, as the lists are bounded: processors that load by signed indices can do so.
        for (std::size_t i = 0; i < count; ++i) sum += values[static_cast<std::int32_t>(own[i])];
        return sum;
    }

    template <class Number>
    static inline void add(const std::vector<std::int64_t>& starts, const std::vector<Number>& lists, Row row,
                           Wrapping mass, Wrapping* sums) {
        const Number* listed = lists.data() + starts[row];
        const Number* const end = lists.data() + starts[row + 1];
        for (; listed + 4 <= end; listed += 4) {
            sums[listed[0]] += mass;
            sums[listed[1]] += mass;
            sums[listed[2]] += mass;
            sums[listed[3]] += mass;
        }
        for (; listed < end; ++listed) sums[*listed] += mass;
    }
};

}  // namespace
}  // namespace privmw
