// The sweeps. Each file that includes this is compiled for its own kind of processor: everything here has
// internal linkage.
#pragma once

#include <algorithm>
#include <array>
#include <bit>

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

    static void to_places(const EffectSets& sets, std::size_t begin, std::size_t end, const Wrapping* sums,
                          Wrapping* scratch, Mass* places) {
        for (std::size_t j = begin; j < end; ++j) {
            const Member member(sets, sets.members[j], scratch);
            member.read(sums);
            member.give_common();
            member.cells[member.count] = 0;  // of a place that has no cell
            for (std::size_t i = member.first_place; i < member.last_place; ++i)
                places[i] = static_cast<Mass>(member.cells[sets.cell_of[i]]);
        }
    }

    static void to_effects(const EffectSets& sets, std::size_t begin, std::size_t end,
                           const std::int64_t* places, Wrapping* scratch, Wrapping* shared,
                           Wrapping* effects) {
        for (std::size_t j = begin; j < end; ++j) {
            const Member member(sets, sets.members[j], scratch);
            std::fill_n(member.cells, member.count, 0);
            for (std::size_t i = member.first_place; i < member.last_place; ++i)
                member.cells[sets.cell_of[i]] = static_cast<Wrapping>(places[i]);
            member.take_common();
            member.write(shared, effects);
        }
    }

    static void price(const EffectSets& sets, std::size_t begin, std::size_t end, const Wrapping* sums,
                      const double* prices, PowerOfTwo unit, Wrapping* scratch, Wrapping* shared,
                      Wrapping* effects) {
        for (std::size_t j = begin; j < end; ++j) {
            const Member member(sets, sets.members[j], scratch);
            member.read(sums);
            member.give_common();
            const double* const price = prices + member.first;
            for (std::size_t i = 0; i < member.count; ++i)
                member.cells[i] = rounded(unit * (to_double(member.cells[i]) * price[i]));
            member.take_common();
            member.write(shared, effects);
        }
    }

    static EffectSweeps all() { return {potentials, sum, to_places, to_effects, price}; }

  private:
    // The cells of a member while they turn into effects, or effects into cells.
    struct Member : EffectSets::Member {
        static constexpr std::size_t most_bits = std::size_t{1} << EffectSets::most_attributes;

        Member(const EffectSets& sets, const EffectSets::Member& member, Wrapping* scratch)
            : EffectSets::Member(member),
              sets(sets),
              cells(scratch),
              running(scratch + sets.most + 1),
              bits_end(std::size_t{1} << order) {
            for (std::size_t bits = 0; bits < bits_end; ++bits) {
                set[bits] = &sets.sets[sets.subsets[subsets + bits]];
                at[bits] = scratch;
                scratch += set[bits]->count;
            }
        }

        void read(const Wrapping* effects) const {
            for (std::size_t bits = 0; bits < bits_end; ++bits)
                std::copy_n(effects + set[bits]->first, set[bits]->count, at[bits]);
        }

        void write(Wrapping* shared, Wrapping* effects) const {
            for (std::size_t bits = 0; bits < bits_end; ++bits) {
                const auto [first, count, parents, ends, groups] = *set[bits];
                if (first < sets.shared)
                    for (std::size_t i = 0; i < count; ++i) shared[first + i] += at[bits][i];
                else
                    std::copy_n(at[bits], count, effects + first);
            }
        }

        // Attribute by attribute, what its uncommon values add to its common one.
        void take_common() const {
            for (std::size_t bit = 1; bit < bits_end; bit <<= 1)
                for (std::size_t bits = bit; bits < bits_end; bits = (bits + 1) | bit) {
                    const std::uint32_t* const parents = parents_of(bits, bit);
                    const Wrapping* const common = at[bits ^ bit];
                    Wrapping* const own = at[bits];
                    const std::size_t count = set[bits]->count;
                    for (std::size_t i = 0; i < count; ++i)
                        own[i] -= common[static_cast<std::int32_t>(parents[i])];
                }
        }

        // Its adjoint.
        void give_common() const {
            for (std::size_t bit = 1; bit < bits_end; bit <<= 1)
                for (std::size_t bits = bit; bits < bits_end; bits = (bits + 1) | bit) {
                    const Wrapping* const own = at[bits];
                    Wrapping* const common = at[bits ^ bit];
                    const auto [first, count, lists, ends, groups] = *set[bits];
                    if (bits < 2 * bit) {
                        // Those of the last attribute lie side by side: the sum of a few is the difference of
                        // two running sums, without a loop whose end no processor can predict.
                        Wrapping sum = 0;
                        running[0] = 0;
                        for (std::size_t i = 0; i < count; ++i) running[i + 1] = sum += own[i];
                        Wrapping before = 0;
                        for (std::size_t parent = 0; parent < groups; ++parent) {
                            const Wrapping to = running[sets.ends[ends + parent]];
                            common[parent] -= to - before;
                            before = to;
                        }
                    } else {
                        const std::uint32_t* const parents = parents_of(bits, bit);
                        for (std::size_t i = 0; i < count; ++i) common[parents[i]] -= own[i];
                    }
                }
        }

        const std::uint32_t* parents_of(std::size_t bits, std::size_t bit) const {
            return sets.parents.data() + set[bits]->parents +
                   std::popcount(bits & (bit - 1)) * set[bits]->count;
        }

        const EffectSets& sets;
        Wrapping* const cells;
        Wrapping* const running;
        const std::size_t bits_end;
        std::array<const EffectSets::Set*, most_bits> set;  // by bits
        std::array<Wrapping*, most_bits> at;                // where its cells begin
    };

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
