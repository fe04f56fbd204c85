#include "core/moves.hpp"

#include <algorithm>
#include <bit>

#include "core/moves/sums.hpp"
#include "core/moves/tables.hpp"

namespace privmw {

namespace {

constexpr std::size_t tile_scores = 2048;  // 16 KB: tiles are cut where an attribute has many values

}  // namespace

Moves::Moves(std::vector<std::uint32_t> sizes, const MarginalList& workload)
    : sizes_(std::move(sizes)), marginals_(workload.size()), of_attribute_(sizes_.size()) {
    for (std::size_t j = 0; j < workload.size(); ++j) {
        Marginal& marginal = marginals_[j];
        marginal.start = cells_;
        std::size_t cells = 1;
        for (std::size_t i = workload.starts[j]; i < workload.starts[j + 1]; ++i) {
            const std::uint32_t a = workload.attributes[i];
            marginal.attributes[marginal.order++] = a;
            of_attribute_[a].push_back(static_cast<std::uint32_t>(j));
        }
        for (std::uint32_t i = marginal.order; i-- > 0;) {
            marginal.strides[i] = cells;
            cells *= sizes_[marginal.attributes[i]];
        }
        cells_ += cells;
    }
}

std::size_t Moves::bytes() const {
    std::size_t total = sizes_.size() * sizeof(sizes_[0]) + marginals_.size() * sizeof(Marginal);
    for (const auto& marginals : of_attribute_) total += marginals.size() * sizeof(marginals[0]);
    return total;
}

CellsInPlace Moves::besides(const Marginal& marginal, const Wrapping* values, std::uint32_t attribute) const {
    CellsInPlace found{values + marginal.start, 0};
    for (std::uint32_t i = 0; i < marginal.order; ++i) {
        if (marginal.attributes[i] == attribute) {
            found.stride = marginal.strides[i];
        } else {
            found.attributes[found.others] = marginal.attributes[i];
            found.strides[found.others++] = marginal.strides[i];
        }
    }
    return found;
}

bool Moves::rearranged(const CellsInPlace& marginal, std::uint32_t most_others, std::size_t records) const {
    if (marginal.others > most_others) return false;
    std::size_t rows = 1;
    for (std::uint32_t i = 0; i < marginal.others; ++i) rows *= sizes_[marginal.attributes[i]];
    return rows <= records;
}

void Moves::redraw(const std::int64_t* values, int exponent, std::uint32_t* codes, std::size_t records,
                   std::span<const Draw> draws, int threads) const {
    if (!records) return;
    const auto* const cells = reinterpret_cast<const Wrapping*>(values);
    const std::size_t width = sizes_.size();
    std::vector<bool> needed(width);
    if (cells)
        for (const Draw& draw : draws)
            for (const std::uint32_t j : of_attribute_[draw.attribute]) {
                const CellsInPlace marginal = besides(marginals_[j], cells, draw.attribute);
                if (!rearranged(marginal, 2, records)) continue;
                for (std::uint32_t i = 0; i < marginal.others; ++i) needed[marginal.attributes[i]] = true;
            }
    MovedRecords tiled(sizes_, needed, codes, records, threads);
    const MoveSweeps& sweeps = move_sweeps();
    const PowerOfTwo power(exponent);
    TablesOfScores tables;
    std::vector<Arranged> arranged;
    std::vector<CellsInPlace> in_place;
    for (const Draw& draw : draws) {
        const std::size_t size = sizes_[draw.attribute], stride = row_stride(size);
        const bool scored = cells && !of_attribute_[draw.attribute].empty() && size > 1;
        if (scored) {
            arranged.clear();
            in_place.clear();
            for (const std::uint32_t j : of_attribute_[draw.attribute]) {
                const CellsInPlace marginal = besides(marginals_[j], cells, draw.attribute);
                if (rearranged(marginal, 2, records))
                    arranged.push_back(arrange(marginal, tiled, sizes_));
                else
                    in_place.push_back(marginal);
            }
            tables.make(arranged, size, tiled, threads);
        }
        // A power of two, so that parts of tiles are equal.
        const std::size_t part =
            std::bit_floor(std::clamp(tile_scores / size, drawn_together(size), tile_records));
        tiled.each_tile(threads, [&] {
            return [&, scores = std::vector<Wrapping>(scored ? part * stride : 0),
                    aside = std::vector<Wrapping>(scored ? drawn_together(size) * size : 0),
                    sums = std::vector<double>(drawn_together(size) * size)](std::size_t t) mutable {
                const Drawing drawing{draw.weighing, power, draw.words, aside.data(), sums.data()};
                std::uint32_t drawn[tile_records];
                for (std::size_t from = 0; from < tiled.count(t); from += part) {
                    const std::size_t count = std::min(part, tiled.count(t) - from),
                                      first = t * tile_records + from;
                    std::uint32_t* const here = codes + first * width;
                    if (scored) {
                        sweeps.add(tables.scores, tiled.tile(t), from, count, scores.data());
                        for (const CellsInPlace& marginal : in_place)
                            for (std::size_t r = 0; r < count; ++r) {
                                const Wrapping* const at = marginal.at(here + r * width);
                                for (std::size_t v = 1; v < size; ++v)
                                    scores[r * stride + v - 1] += at[v * marginal.stride] - at[0];
                            }
                    }
                    sweeps.draw(scored ? scores.data() : nullptr, stride, drawing, first, count, drawn);
                    for (std::size_t r = 0; r < count; ++r) here[r * width + draw.attribute] = drawn[r];
                    tiled.set(t, draw.attribute, from, drawn, 1, count);
                }
            };
        });
    }
}

void Moves::potentials(const std::int64_t* values, int exponent, const std::uint32_t* codes,
                       std::size_t records, int threads, double* potentials) const {
    if (!records) return;
    const auto* const cells = reinterpret_cast<const Wrapping*>(values);
    const std::size_t width = sizes_.size();
    std::vector<bool> needed(width);
    std::vector<CellsInPlace> in_place, near;
    for (const Marginal& marginal : marginals_) {
        const CellsInPlace all = besides(marginal, cells, no_code);
        (rearranged(all, 3, records) ? near : in_place).push_back(all);
    }
    for (const CellsInPlace& marginal : near)
        for (std::uint32_t i = 0; i < marginal.others; ++i) needed[marginal.attributes[i]] = true;
    const MovedRecords tiled(sizes_, needed, codes, records, threads);
    std::vector<Arranged> arranged;
    for (const CellsInPlace& marginal : near) arranged.push_back(arrange(marginal, tiled, sizes_));
    const TablesOfSums sums(arranged, tiled.slots(), threads);
    const PowerOfTwo power(exponent);
    tiled.each_tile(threads, [&] {
        return [&](std::size_t t) {
            Wrapping of_records[tile_records];
            const std::size_t count = tiled.count(t), first = t * tile_records;
            sums.sum(tiled.tile(t), count, of_records);
            for (const CellsInPlace& marginal : in_place)
                for (std::size_t r = 0; r < count; ++r)
                    of_records[r] += *marginal.at(codes + (first + r) * width);
            for (std::size_t r = 0; r < count; ++r) potentials[first + r] = power * to_double(of_records[r]);
        };
    });
}

}  // namespace privmw
