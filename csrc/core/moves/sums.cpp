#include "core/moves/sums.hpp"

namespace privmw {

TablesOfSums::TablesOfSums(const std::vector<Arranged>& marginals, std::size_t slots, int threads) {
    std::vector<Arranged> of_order[4];
    for (const Arranged& marginal : marginals) of_order[marginal.others].push_back(marginal);
    std::vector<First> firsts(slots);
    for (std::uint32_t slot = 0; slot < slots; ++slot) firsts[slot].slot = slot;
    // A table passes its common part to one of fewer attributes, which is made after it.
    for (std::uint32_t order = 3; order > 0; --order)
        for (const Group& group : make(order, of_order[order], threads)) {
            const Side* const sides = group.marginals[0].sides;
            First& first = firsts[sides[0].slot];
            if (order == 3) {
                if (first.triples_begin == first.triples_end) first.triples_begin = triples_.size();
                triples_.push_back(
                    {{sides[1].slot, sides[2].slot}, {sides[1].size, sides[2].size}, group.values});
                first.triples_end = triples_.size();
            } else if (order == 2) {
                if (first.pairs_begin == first.pairs_end) first.pairs_begin = pairs_.size();
                pairs_.push_back({sides[1].slot, sides[1].size, group.values});
                first.pairs_end = pairs_.size();
            } else {
                first.values = group.values;
            }
            if (sides[0].common == no_code) continue;
            Arranged common{group.values + sides[0].common * group.values_of_code, 0, order - 1, {}};
            std::size_t stride = 1;
            for (std::uint32_t i = order - 1; i-- > 0; stride *= common.sides[i].size) {
                common.sides[i] = sides[i + 1];
                common.sides[i].stride = stride;
            }
            of_order[order - 1].push_back(common);
        }
    for (const Arranged& marginal : of_order[0]) alone_ += marginal.cells[0];
    for (const First& first : firsts)
        if (first.values || first.pairs_end || first.triples_end) firsts_.push_back(first);
}

std::vector<TablesOfSums::Group> TablesOfSums::make(std::uint32_t order, std::vector<Arranged>& marginals,
                                                    int threads) {
    const auto before = [order](const Arranged& a, const Arranged& b) {
        return std::lexicographical_compare(a.sides, a.sides + order, b.sides, b.sides + order,
                                            [](const Side& x, const Side& y) { return x.slot < y.slot; });
    };
    std::sort(marginals.begin(), marginals.end(), before);
    std::vector<Group> groups;
    std::size_t values = 0;
    for (std::size_t begin = 0, end = 0; begin < marginals.size(); begin = end) {
        while (end < marginals.size() && !before(marginals[begin], marginals[end])) ++end;
        std::size_t of_code = 1;
        for (std::uint32_t i = 1; i < order; ++i) of_code *= marginals[begin].sides[i].size;
        groups.push_back({std::span(marginals).subspan(begin, end - begin), of_code, nullptr});
        values += of_code * marginals[begin].sides[0].size;
    }
    memory_[order] = std::make_unique_for_overwrite<Wrapping[]>(values);
    Wrapping* next = memory_[order].get();
    for (Group& group : groups) {
        group.values = next;
        next += group.values_of_code * group.marginals[0].sides[0].size;
    }
    for_each_task(static_cast<std::int64_t>(groups.size()), values < alone_below ? 1 : threads,
                  [&](std::int64_t i) { fill(groups[i], order); });
    return groups;
}

void TablesOfSums::fill(const Group& group, std::uint32_t order) {
    const Side* const sides = group.marginals[0].sides;
    std::fill_n(group.values, group.values_of_code * sides[0].size, 0);
    for (const Arranged& marginal : group.marginals) {
        const Side no_side{0, 1, no_code, 0};
        const Side &first = marginal.sides[0], &second = order > 1 ? marginal.sides[1] : no_side,
                   &third = order > 2 ? marginal.sides[2] : no_side;
        Wrapping* sum = group.values;
        for (std::size_t a = 0; a < first.size; ++a)
            for (std::size_t b = 0; b < second.size; ++b) {
                const Wrapping* const cells = marginal.cells + a * first.stride + b * second.stride;
                for (std::size_t c = 0; c < third.size; ++c) *sum++ += cells[c * third.stride];
            }
    }
    if (sides[0].common == no_code) return;
    const Wrapping* const common = group.values + sides[0].common * group.values_of_code;
    for (std::size_t a = 0; a < sides[0].size; ++a) {
        Wrapping* const of_code = group.values + a * group.values_of_code;
        if (a != sides[0].common)
            for (std::size_t i = 0; i < group.values_of_code; ++i) of_code[i] -= common[i];
    }
}

void TablesOfSums::sum(const Tile& tile, std::size_t count, Wrapping* sums) const {
    std::fill_n(sums, count, alone_);
    for (const First& first : firsts_) {
        const std::uint32_t* const codes = tile.codes + first.slot * tile_records;
        each_bit(tile.uncommon[first.slot], count, [&](std::size_t r) {
            const std::size_t code = codes[r];
            const std::uint32_t* const others = tile.codes + r;
            Wrapping total = first.values ? first.values[code] : 0;
            for (std::size_t i = first.pairs_begin; i < first.pairs_end; ++i) {
                const Pair& pair = pairs_[i];
                total += pair.values[code * pair.size + others[pair.slot * tile_records]];
            }
            for (std::size_t i = first.triples_begin; i < first.triples_end; ++i) {
                const Triple& triple = triples_[i];
                const std::size_t second = others[triple.slots[0] * tile_records],
                                  third = others[triple.slots[1] * tile_records];
                total += triple.values[(code * triple.sizes[0] + second) * triple.sizes[1] + third];
            }
            sums[r] += total;
        });
    }
}

}  // namespace privmw
