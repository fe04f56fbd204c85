// The sweeps. Each file that includes this is compiled for its own kind of processor: everything here has
// internal linkage.
#pragma once

#include "core/exponential.hpp"
#include "core/moves/sweeps.hpp"

namespace privmw {
namespace {

#ifdef __AVX2__
constexpr std::size_t vector_bytes = 32;
#else
constexpr std::size_t vector_bytes = 16;
#endif
constexpr std::size_t in_vector = vector_bytes / 8;
typedef double Reals __attribute__((vector_size(vector_bytes)));
typedef std::int64_t Integers __attribute__((vector_size(vector_bytes)));
typedef Wrapping Words __attribute__((vector_size(vector_bytes)));
typedef Reals StoredReals __attribute__((aligned(8), may_alias));
typedef Words StoredWords __attribute__((aligned(8), may_alias));

struct MoveSweepsHere {
    static void add(const ScoreTables& tables, const Tile& tile, std::size_t first, std::size_t count,
                    Wrapping* scores) {
        const std::size_t stride = tables.stride;
        for (std::size_t r = 0; r < count; ++r)
            for (std::size_t v = 0; v < stride; ++v) scores[r * stride + v] = tables.alone[v];
        switch (stride) {
            case 1:
                return add_columns<1, true>(tables, tile, first, count, 0, scores);
            case 2:
                return add_columns<2, true>(tables, tile, first, count, 0, scores);
            case 4:
                return add_columns<4, true>(tables, tile, first, count, 0, scores);
            case 8:
                return add_columns<8, true>(tables, tile, first, count, 0, scores);
            case 12:
                return add_columns<12, true>(tables, tile, first, count, 0, scores);
        }
        std::size_t at = 0;
        for (; at + 16 <= stride; at += 16) add_columns<16, false>(tables, tile, first, count, at, scores);
        for (; at + 8 <= stride; at += 8) add_columns<8, false>(tables, tile, first, count, at, scores);
        for (; at < stride; at += 4) add_columns<4, false>(tables, tile, first, count, at, scores);
    }

    static void draw(const Wrapping* scores, std::size_t stride, const Drawing& drawing, std::size_t first,
                     std::size_t count, std::uint32_t* codes) {
        const bool many = drawn_together(drawing.weighing.base.size()) > 4;
        if (scores)
            (many ? draw_all<16, true> : draw_all<4, true>)(scores, stride, drawing, first, count, codes);
        else
            (many ? draw_all<16, false> : draw_all<4, false>)(scores, stride, drawing, first, count, codes);
    }

    static MoveSweeps all() { return {add, draw}; }

  private:
    // Some columns of rows, which stay in registers while a record adds the rows of a partner.
    template <std::size_t width>
    struct Sums {
        static constexpr std::size_t wide = width * 8 < vector_bytes ? width * 8 : vector_bytes,
                                     vectors = width * 8 / wide;
        typedef Wrapping Vector __attribute__((vector_size(wide), aligned(8), may_alias));
        Vector parts[vectors];
        inline __attribute__((always_inline)) explicit Sums(const Wrapping* from) {
            for (std::size_t i = 0; i < vectors; ++i)
                parts[i] = *reinterpret_cast<const Vector*>(from + i * wide / 8);
        }
        inline __attribute__((always_inline)) void add(const Wrapping* row) {
            for (std::size_t i = 0; i < vectors; ++i)
                parts[i] += *reinterpret_cast<const Vector*>(row + i * wide / 8);
        }
        inline __attribute__((always_inline)) void store(Wrapping* to) const {
            for (std::size_t i = 0; i < vectors; ++i)
                *reinterpret_cast<Vector*>(to + i * wide / 8) = parts[i];
        }
    };

    template <std::size_t width, bool whole>
    static void add_columns(const ScoreTables& tables, const Tile& tile, std::size_t from, std::size_t count,
                            std::size_t at, Wrapping* scores) {
        for (const ScoreTables::Partner& partner : tables.partners) {
            switch (partner.end - partner.begin) {
                case 0:
                    add_partner<width, whole, 0>(tables, partner, tile, from, count, at, scores);
                    break;
                case 1:
                    add_partner<width, whole, 1>(tables, partner, tile, from, count, at, scores);
                    break;
                default:
                    add_partner<width, whole, 2>(tables, partner, tile, from, count, at, scores);
            }
        }
    }

    // few: its triples, none or one; or else 2 for any number. One stays in registers.
    template <std::size_t width, bool whole, int few>
    static inline __attribute__((always_inline)) void add_partner(const ScoreTables& tables,
                                                                  const ScoreTables::Partner& partner,
                                                                  const Tile& tile, std::size_t from,
                                                                  std::size_t count, std::size_t at,
                                                                  Wrapping* scores) {
        const std::size_t stride = whole ? width : tables.stride;
        const std::uint32_t* const others = tile.codes + from;
        const std::uint32_t* const codes = others + partner.slot * tile_records;
        const Wrapping* const rows = partner.rows ? partner.rows + at : nullptr;
        const ScoreTables::Triple* const begin = tables.triples.data() + partner.begin;
        const ScoreTables::Triple* const end = tables.triples.data() + partner.end;
        const ScoreTables::Triple one = few == 1 ? *begin : ScoreTables::Triple{};
        const std::uint32_t* const other = others + one.slot * tile_records;
        each_bit(
            tile.uncommon[partner.slot] >> from, count, [=](std::size_t r) __attribute__((always_inline)) {
                Sums<width> sums(scores + r * stride + at);
                const std::size_t code = codes[r];
                if (rows) sums.add(rows + code * stride);
                if constexpr (few == 1) sums.add(one.rows + (code * one.size + other[r]) * stride + at);
                if constexpr (few == 2)
                    for (const ScoreTables::Triple* triple = begin; triple < end; ++triple) {
                        const std::size_t row = code * triple->size + others[triple->slot * tile_records + r];
                        sums.add(triple->rows + row * stride + at);
                    }
                sums.store(scores + r * stride + at);
            });
    }

    template <std::size_t lanes, bool scored>
    static void draw_all(const Wrapping* scores, std::size_t stride, const Drawing& drawing,
                         std::size_t first, std::size_t count, std::uint32_t* codes) {
        for (std::size_t r = 0; r < count; r += lanes)
            draw_together<lanes, scored>(scored ? scores + r * stride : nullptr, stride, drawing, first + r,
                                         count - r < lanes ? count - r : lanes, codes + r);
    }

    // One value of records next to each other.
    static inline __attribute__((always_inline)) Words across(const Wrapping* from, std::size_t stride) {
#ifdef __AVX2__
        return Words{from[0], from[stride], from[2 * stride], from[3 * stride]};
#else
        return Words{from[0], from[stride]};
#endif
    }

    // Several records at once: sums are added value by value.
    template <std::size_t lanes, bool scored>
    static void draw_together(const Wrapping* scores, std::size_t stride, const Drawing& drawing,
                              std::size_t first, std::size_t count, std::uint32_t* codes) {
        constexpr std::size_t vectors = lanes / in_vector, together = vectors < 4 ? vectors : 4;
        const Weighing& weighing = drawing.weighing;
        const PowerOfTwo power = drawing.power;
        const double* const base = weighing.base.data();
        const double keep = weighing.keep;
        const auto size = static_cast<std::int64_t>(weighing.base.size());
        alignas(vector_bytes) Wrapping kept_codes[lanes], given_words[lanes];
        for (std::size_t i = 0; i < lanes; ++i) {
            const std::size_t r = first + (i < count ? i : count - 1);  // repeat the last: not written
            kept_codes[i] = weighing.kept[r * weighing.step];
            given_words[i] = drawing.words[r];
        }
        const auto* const kept = reinterpret_cast<const StoredWords*>(kept_codes);
        const auto* const words = reinterpret_cast<const StoredWords*>(given_words);
        Integers most[vectors], last[vectors] = {}, below[vectors] = {};
        StoredWords* const of_values = reinterpret_cast<StoredWords*>(drawing.scores);
        StoredReals* const sums = reinterpret_cast<StoredReals*>(drawing.sums);
        if constexpr (scored) {
            for (std::size_t k = 0; k < vectors; ++k)
                most[k] = Integers{} + std::numeric_limits<std::int64_t>::min();
            for (std::int64_t v = 0; v < size; ++v) {
                const Words code = Words{} + static_cast<Wrapping>(v);
                const std::int64_t without = base[v] > 0 ? -1 : 0, with = base[v] + keep > 0 ? -1 : 0;
                for (std::size_t k = 0; k < vectors; ++k) {
                    const Words score = v ? across(scores + k * in_vector * stride + v - 1, stride) : Words{};
                    of_values[v * vectors + k] = score;
                    const Integers more = reinterpret_cast<Integers>(score) > most[k];
                    const Integers weighs = (kept[k] == code) ? Integers{} + with : Integers{} + without;
                    most[k] = (more & weighs) ? reinterpret_cast<Integers>(score) : most[k];
                }
            }
        }
        Reals totals[vectors] = {};
        for (std::int64_t v = 0; v < size; ++v) {
            const Words code = Words{} + static_cast<Wrapping>(v);
            const Reals without = Reals{} + base[v], with = Reals{} + (base[v] + keep);
            for (std::size_t k = 0; k < vectors; k += together) {
                Reals weights[together], x[together];
                for (std::size_t i = 0; i < together; ++i) {
                    weights[i] = (kept[k + i] == code) ? with : without;
                    if constexpr (!scored) continue;
                    // Values of weight zero may have scores above the largest: they stay zero.
                    const Words above = of_values[v * vectors + k + i] - reinterpret_cast<Words>(most[k + i]);
                    const Reals score = to_doubles<Reals, Words>(above) * power.first * power.second;
                    weights[i] = (score < least_normal) ? Reals{} : weights[i];
                    x[i] = (score < 0) ? score : Reals{};
                    x[i] = (x[i] > least_normal) ? x[i] : Reals{} + least_normal;
                }
                if constexpr (scored) exp_of_negatives<Reals, Words>(x);
                for (std::size_t i = 0; i < together; ++i) {
                    if constexpr (scored) weights[i] *= x[i];
                    last[k + i] = (weights[i] > 0) ? Integers{} + v : last[k + i];
                    totals[k + i] += weights[i];
                    sums[v * vectors + k + i] = totals[k + i];
                }
            }
        }
        // The first value whose cumulative weight is above the word's share of the total.
        for (std::size_t k = 0; k < vectors; ++k)
            totals[k] *= to_doubles<Reals, Words>(words[k] >> 11) * 0x1p-53;
        for (std::int64_t v = 0; v < size; ++v)
            for (std::size_t k = 0; k < vectors; ++k) below[k] -= sums[v * vectors + k] <= totals[k];
        for (std::size_t k = 0; k < vectors; ++k)  // beyond the last where a subnormal total is rounded
            below[k] = (below[k] < last[k]) ? below[k] : last[k];
        for (std::size_t i = 0; i < count; ++i)
            codes[i] = static_cast<std::uint32_t>(below[i / in_vector][i % in_vector]);
    }
};

}  // namespace
}  // namespace privmw
