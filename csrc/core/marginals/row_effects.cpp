// Compiled without vectors: loads one by one are faster than those that gather
// (benches/journal/2026-11-fits.md).
#include "core/marginals/row_effects.hpp"

namespace privmw {

namespace {

template <class Number>
Wrapping gather(const std::vector<std::int64_t>& starts, const std::vector<Number>& lists, Row row,
                const Wrapping* values) {
    const Number* listed = lists.data() + starts[row];
    const Number* const end = lists.data() + starts[row + 1];
    Wrapping a = 0, b = 0, c = 0, d = 0;
    for (; listed < end; listed += RowEffects::step) {
        a += values[listed[0]];
        b += values[listed[1]];
        c += values[listed[2]];
        d += values[listed[3]];
    }
    return (a + b) + (c + d);
}

template <class Number>
void add(const std::vector<std::int64_t>& starts, const std::vector<Number>& lists, Row row, Wrapping mass,
         Wrapping* sums) {
    const Number* listed = lists.data() + starts[row];
    const Number* const end = lists.data() + starts[row + 1];
    for (; listed < end; listed += RowEffects::step) {
        sums[listed[0]] += mass;
        sums[listed[1]] += mass;
        sums[listed[2]] += mass;
        sums[listed[3]] += mass;
    }
}

}  // namespace

void RowEffects::potentials(std::span<const Row> rows, const Wrapping* values, PowerOfTwo unit,
                            double* potentials) const {
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const Wrapping listed =
            gather(low_starts, low, rows[i], values) + gather(high_starts, high, rows[i], values);
        potentials[i] = unit * to_double(values[0] + listed);
    }
}

void RowEffects::sum(std::span<const Row> rows, const Mass* masses, Wrapping* sums) const {
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const auto mass = static_cast<Wrapping>(masses[i]);
        sums[0] += mass;
        add(low_starts, low, rows[i], mass, sums);
        add(high_starts, high, rows[i], mass, sums);
    }
}

std::size_t RowEffects::bytes() const {
    return (low_starts.size() + high_starts.size()) * sizeof low_starts[0] + low.size() * sizeof low[0] +
           high.size() * sizeof high[0];
}

}  // namespace privmw
