// The conversions, with internal linkage: each file that includes this is compiled for its own processor.
#pragma once

#include <algorithm>
#include <array>
#include <bit>

#include "core/marginals/effect_sweeps.hpp"

namespace privmw {
namespace {

struct EffectSweepsHere {
    static void sum_carried(const EffectSets& sets, Wrapping* scratch, Wrapping* sums) {
        for (std::size_t i = sets.carried.size(); i-- > 0;) {
            const auto [number, by, without, last] = sets.carried[i];
            Wrapping* const sum = sums + sets.sets[number].first;
            sum_by_parent(sets, sets.sets[by], without, last, sums + sets.sets[by].first, scratch,
                          [&](std::size_t parent, Wrapping of_some) { sum[parent] += of_some; });
        }
    }

    static void carry(const EffectSets& sets, Wrapping* effects) {
        for (const auto [number, by, without, last] : sets.carried) {
            const EffectSets::Set& set = sets.sets[by];
            const std::uint32_t* const parents = parents_of(sets, set, without);
            Wrapping* const own = effects + set.first;
            const Wrapping* const carried = effects + sets.sets[number].first;
            for (std::size_t i = 0; i < set.count; ++i) own[i] += carried[parents[i]];
        }
    }

    static void to_places(const EffectSets& sets, std::size_t begin, std::size_t end, const Wrapping* sums,
                          Wrapping* scratch, Mass* places) {
        for (std::size_t j = begin; j < end; ++j) {
            const Member member(sets, sets.members[j], scratch);
            member.read(sums);
            member.give_common();
            member.cells[member.count] = 0;  // of a place without a cell
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

    static void price(const EffectSets& sets, std::size_t begin, std::size_t end, const double* prices,
                      PowerOfTwo unit, Wrapping* scratch, Wrapping* shared, Wrapping* effects) {
        for (std::size_t j = begin; j < end; ++j) {
            const Member member(sets, sets.members[j], scratch);
            member.read(effects);
            member.give_common();
            const double* const price = prices + member.first;
            for (std::size_t i = 0; i < member.count; ++i)
                member.cells[i] = rounded(unit * (to_double(member.cells[i]) * price[i]));
            member.take_common();
            member.write(shared, effects);
        }
    }

    static EffectSweeps all() { return {sum_carried, carry, to_places, to_effects, price}; }

  private:
    // For the effects of a set, those of the set without an attribute.
    static const std::uint32_t* parents_of(const EffectSets& sets, const EffectSets::Set& set,
                                           std::size_t without) {
        return sets.parents.data() + set.parents + without * set.count;
    }

    // Calls use(parent, values) for all values (IN, one per effect of a set), one or several of a parent at a
    // time.
    template <class Use>
    static void sum_by_parent(const EffectSets& sets, const EffectSets::Set& set, std::size_t without,
                              bool last, const Wrapping* values, Wrapping* running, Use&& use) {
        if (last) {
            // Values of a parent are adjacent: their sum is the difference of two running sums, which avoids
            // a loop with an unpredictable end.
            const std::uint32_t* const ends = sets.ends.data() + set.ends;
            Wrapping sum = 0;
            running[0] = 0;
            for (std::size_t i = 0; i < set.count; ++i) running[i + 1] = sum += values[i];
            Wrapping before = 0;
            for (std::size_t parent = 0; parent < set.groups; ++parent) {
                const Wrapping to = running[ends[parent]];
                use(parent, to - before);
                before = to;
            }
        } else {
            const std::uint32_t* const parents = parents_of(sets, set, without);
            for (std::size_t i = 0; i < set.count; ++i) use(parents[i], values[i]);
        }
    }

    // The cells of a member during a conversion.
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

        // Attribute by attribute: the differences of uncommon values from the common one.
        void take_common() const {
            for (std::size_t bit = 1; bit < bits_end; bit <<= 1)
                for (std::size_t bits = bit; bits < bits_end; bits = (bits + 1) | bit) {
                    const std::uint32_t* const parents =
                        parents_of(sets, *set[bits], std::popcount(bits & (bit - 1)));
                    const Wrapping* const common = at[bits ^ bit];
                    Wrapping* const own = at[bits];
                    const std::size_t count = set[bits]->count;
                    for (std::size_t i = 0; i < count; ++i) own[i] -= common[parents[i]];
                }
        }

        // Its adjoint.
        void give_common() const {
            for (std::size_t bit = 1; bit < bits_end; bit <<= 1)
                for (std::size_t bits = bit; bits < bits_end; bits = (bits + 1) | bit) {
                    Wrapping* const common = at[bits ^ bit];
                    sum_by_parent(sets, *set[bits], std::popcount(bits & (bit - 1)), bits < 2 * bit, at[bits],
                                  running, [&](std::size_t parent, Wrapping sum) { common[parent] -= sum; });
                }
        }

        const EffectSets& sets;
        Wrapping* const cells;
        Wrapping* const running;
        const std::size_t bits_end;
        std::array<const EffectSets::Set*, most_bits> set;  // by bits
        std::array<Wrapping*, most_bits> at;                // where its cells begin
    };
};

}  // namespace
}  // namespace privmw
