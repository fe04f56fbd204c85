// Conversions between effects and cells of marginals, compiled per kind of processor. Integers are added
// modulo 2^64: every processor gives the same bits.
#pragma once

#include "core/power_of_two.hpp"
#include "core/types.hpp"

namespace privmw {

// The effects of sets of attributes, and the marginals that contain these sets.
struct EffectSets {
    static constexpr std::size_t most_attributes = 6;  // of a marginal

    // The effects of a set that some row has, in the order of its cells.
    struct Set {
        std::size_t first = 0, count = 0;  // its effects among all
        std::size_t parents = 0;           // where its lists begin in `parents`
        std::size_t ends = 0, groups = 0;  // its groups in `ends`
    };
    // A marginal.
    struct Member {
        std::size_t subsets = 0;  // where its sets begin in `subsets`
        std::size_t order = 0;
        std::size_t first = 0, count = 0;             // its cells with an effect, set by set
        std::size_t first_place = 0, last_place = 0;  // its cells with values
    };

    // A row with an effect of `by` does not list that of `set`, which lacks one attribute of `by`.
    struct Carried {
        std::uint32_t set = 0, by = 0;
        std::uint32_t without = 0;  // the position of the attribute in `by`
        bool last = false;          // whether that is the last
    };

    std::vector<Set>
        sets;  // the first is empty: its only effect, number 0, belongs to every row and is not listed
    std::vector<Member> members;
    std::vector<Carried> carried;        // shorter sets first
    std::vector<std::uint32_t> subsets;  // of a member, by bit mask; the lowest bit is the first attribute
    std::vector<std::uint32_t>
        parents;  // of a set, by attribute: for each effect, that of the set without it
    std::vector<std::uint32_t>
        ends;  // by effect of the set without its last attribute: the end of those with it
    std::vector<std::uint32_t> cell_of;  // by place: the cell of its member, or the number of cells if none
    std::size_t shared = 0;  // effects below belong to several members, the others to a single full marginal
    std::size_t most = 0;    // cells of a member

    // The size of the scratch memory of a sweep.
    std::size_t scratch() const { return 2 * most + 2; }
};

struct EffectSweeps {
    // Convert sums by listed effects (IN) to sums by all effects of rows (OUT), and effects of sets (IN) to
    // listed effects (OUT).
    void (*sum_carried)(const EffectSets& sets, Wrapping* scratch, Wrapping* sums);
    void (*carry)(const EffectSets& sets, Wrapping* effects);

    // The following are for members begin to end. sums: IN, one per effect; places: OUT, the sums of cells.
    void (*to_places)(const EffectSets& sets, std::size_t begin, std::size_t end, const Wrapping* sums,
                      Wrapping* scratch, Mass* places);
    // places: IN, the values of cells. Adds to effects shared by several members, and writes the others.
    void (*to_effects)(const EffectSets& sets, std::size_t begin, std::size_t end, const std::int64_t* places,
                       Wrapping* scratch, Wrapping* shared, Wrapping* effects);
    // From sums (IN, in `effects`) to effects, where the value of a cell is its sum times its price (IN),
    // rounded to a unit.
    void (*price)(const EffectSets& sets, std::size_t begin, std::size_t end, const double* prices,
                  PowerOfTwo unit, Wrapping* scratch, Wrapping* shared, Wrapping* effects);
};

// The fastest version that the processor supports.
const EffectSweeps& effect_sweeps();

#ifdef PRIVMW_TILES_AVX2
EffectSweeps effect_sweeps_avx2();
#endif

}  // namespace privmw
