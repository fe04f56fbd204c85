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

    static void sum(const SumTables& tables, const Tile& tile, std::size_t count, Wrapping* sums) {
        for (std::size_t r = 0; r < count; ++r) sums[r] = tables.alone;
        for (const SumTables::First& first : tables.firsts) {
            const std::uint32_t* const codes = tile.codes + first.slot * tile_records;
            each_bit(tile.uncommon[first.slot], count, [&](std::size_t r) {
                Wrapping total = sums[r];
                const std::size_t code = codes[r];
                const std::uint32_t* const others = tile.codes + r;
                if (first.values) total += first.values[code];
                for (std::size_t i = first.pairs_begin; i < first.pairs_end; ++i) {
                    const SumTables::Pair& pair = tables.pairs[i];
                    total += pair.values[code * pair.size + others[pair.slot * tile_records]];
                }
                for (std::size_t i = first.triples_begin; i < first.triples_end; ++i) {
                    const SumTables::Triple& triple = tables.triples[i];
                    const std::size_t second = others[triple.slots[0] * tile_records],
                                      third = others[triple.slots[1] * tile_records];
                    total += triple.values[(code * triple.sizes[0] + second) * triple.sizes[1] + third];
                }
                sums[r] = total;
            });
        }
    }

    static MoveSweeps all() { return {add, draw, sum}; }

  private:
    // visit(r) for each of the lowest `count` bits that is set.
    template <class Visit>
    static inline __attribute__((always_inline)) void each_bit(std::uint64_t bits, std::size_t count,
                                                               Visit&& visit) {
        const std::uint64_t all = ~std::uint64_t{0} >> (tile_records - count);
        bits &= all;
        if (bits == all)
            for (std::size_t r = 0; r < count; ++r) visit(r);
        else
            for (; bits; bits &= bits - 1) visit(static_cast<std::size_t>(__builtin_ctzll(bits)));
    }

    // Some columns of rows, which stay in registers while a record adds all that a partner asks for.
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
        const std::size_t stride = whole ? width : tables.stride;
        for (const ScoreTables::Partner& partner : tables.partners) {
            const std::uint32_t* const codes = tile.codes + partner.slot * tile_records + from;
            const Wrapping* const rows = partner.rows ? partner.rows + at : nullptr;
            const ScoreTables::Triple* const begin = tables.triples.data() + partner.begin;
            const ScoreTables::Triple* const end = tables.triples.data() + partner.end;
            const std::uint32_t* const others = tile.codes + from;
            each_bit(tile.uncommon[partner.slot] >> from, count, [=](std::size_t r) {
                Sums<width> sums(scores + r * stride + at);
                const std::size_t code = codes[r];
                if (rows) sums.add(rows + code * stride);
                for (const ScoreTables::Triple* triple = begin; triple < end; ++triple) {
                    const std::size_t row = code * triple->size + others[triple->slot * tile_records + r];
                    sums.add(triple->rows + row * stride + at);
                }
                sums.store(scores + r * stride + at);
            });
        }
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

    // Records side by side, so that all is done for several at once: sums are added value after value.
    template <std::size_t lanes, bool scored>
    static void draw_together(const Wrapping* scores, std::size_t stride, const Drawing& drawing,
                              std::size_t first, std::size_t count, std::uint32_t* codes) {
        constexpr std::size_t vectors = lanes / in_vector;
        const Weighing& weighing = drawing.weighing;
        const PowerOfTwo power = drawing.power;
        const double* const base = weighing.base.data();
        const double keep = weighing.keep;
        const auto size = static_cast<std::int64_t>(weighing.base.size());
        alignas(vector_bytes) Wrapping kept_codes[lanes], given_words[lanes];
        for (std::size_t i = 0; i < lanes; ++i) {
            const std::size_t r = first + (i < count ? i : count - 1);  // the last again: not written
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
            for (std::size_t k = 0; k < vectors; ++k) {
                Reals weight = (kept[k] == code) ? with : without;
                if constexpr (scored) {
                    // Values of weight zero may have scores above the most: they stay zero.
                    Reals x = to_doubles<Reals, Words>(of_values[v * vectors + k] -
                                                       reinterpret_cast<Words>(most[k]));
                    x = x * power.first * power.second;
                    weight = (x < least_normal) ? Reals{} : weight;
                    x = (x < 0) ? x : Reals{};
                    x = (x > least_normal) ? x : Reals{} + least_normal;
                    weight *= exp_of_negatives<Reals, Words>(x);
                }
                last[k] = (weight > 0) ? Integers{} + v : last[k];
                totals[k] += weight;
                sums[v * vectors + k] = totals[k];
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
