// Sweeps over sets of attributes and marginals, whose effects turn into cells and back, for the processor at
// hand. Integers are added modulo 2^64: every processor has the same bits.
#pragma once

#include "core/power_of_two.hpp"
#include "core/types.hpp"

namespace privmw {

// The effects of sets of attributes, and the marginals that have these sets as subsets.
struct EffectSets {
    static constexpr std::size_t most_attributes = 6;  // of a marginal

    // The effects of a set: those that some row has, in the order of its cells.
    struct Set {
        std::size_t first = 0, count = 0;  // its effects among all
        std::size_t parents = 0;           // where its lists begin in `parents`
        std::size_t ends = 0, groups = 0;  // where its groups begin in `ends`, and their number
    };
    // A marginal.
    struct Member {
        std::size_t subsets = 0;  // where its sets begin in `subsets`
        std::size_t order = 0;
        std::size_t first = 0, count = 0;             // its cells with an effect, set after set, among all
        std::size_t first_place = 0, last_place = 0;  // its cells that have values
    };

    // A row that has an effect of `by` does not list that of `set`, its set without one attribute.
    struct Carried {
        std::uint32_t set = 0, by = 0;
        std::uint32_t without = 0;  // the position of the attribute in `by`
        bool last = false;          // whether that is the last
    };

    std::vector<Set> sets;  // the first is empty: its one effect, number 0, is every row's and not listed
    std::vector<Member> members;
    std::vector<Carried> carried;        // shorter sets first
    std::vector<std::uint32_t> subsets;  // a member's by their bits, the lowest for the first attribute
    std::vector<std::uint32_t> parents;  // a set's by attribute: for each effect that of the set without it
    std::vector<std::uint32_t> ends;     // by effect of the set without the last: the end of those with it
    std::vector<std::uint32_t> cell_of;  // by place: which of its member's cells, or their number if none
    std::size_t shared = 0;  // effects below are of several members, the others of the whole of one
    std::size_t most = 0;    // cells of a member

    // How many numbers a sweep needs to write to for its own use.
    std::size_t scratch() const { return 2 * most + 2; }
};

struct EffectSweeps {
    // Sums by the effects that rows list (IN) become sums by all that they have (OUT), and the effects of
    // sets (IN) those that rows list (OUT).
    void (*sum_carried)(const EffectSets& sets, Wrapping* scratch, Wrapping* sums);
    void (*carry)(const EffectSets& sets, Wrapping* effects);

    // All of the following are of the members from begin to end. sums: IN, one per effect; places: OUT, one
    // per place, the sums of cells.
    void (*to_places)(const EffectSets& sets, std::size_t begin, std::size_t end, const Wrapping* sums,
                      Wrapping* scratch, Mass* places);
    // places: IN, the values of cells. Adds to those effects that several members share, and writes the
    // others.
    void (*to_effects)(const EffectSets& sets, std::size_t begin, std::size_t end, const std::int64_t* places,
                       Wrapping* scratch, Wrapping* shared, Wrapping* effects);
    // From sums (IN, in `effects`) to effects, the values of cells being their sums times prices (IN, one per
    // cell of a member) in a unit, rounded.
    void (*price)(const EffectSets& sets, std::size_t begin, std::size_t end, const double* prices,
                  PowerOfTwo unit, Wrapping* scratch, Wrapping* shared, Wrapping* effects);
};

// The fastest that the processor can run.
const EffectSweeps& effect_sweeps();

#ifdef PRIVMW_TILES_AVX2
EffectSweeps effect_sweeps_avx2();
#endif

}  // namespace privmw
