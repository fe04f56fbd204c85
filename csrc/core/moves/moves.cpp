#include "core/moves.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <memory>
#include <tuple>

#include "core/moves/sweeps.hpp"
#include "core/parallel.hpp"

namespace privmw {

namespace {

constexpr std::size_t tiles_block = 8;       // of a task
constexpr std::size_t tile_scores = 2048;    // 16 KB: tiles are cut where an attribute has many values
constexpr std::size_t sampled = 1024;        // records that tell the commonest values
constexpr std::uint32_t most_values = 4096;  // of an attribute that may have a common value
constexpr std::size_t alone_below = std::size_t{1} << 17;  // values that one thread rearranges
// An attribute has a common value if fewer records than this have another. Against no leaning at all, a sweep
// over 8,000 records took 0.55 of the time with all three-way marginals of 67 attributes, 0.6 with those of
// ADULT, 0.9 with 1,024 of the 67 attributes, and as long with uniform attributes; there 0.8 would cost 20 %.
constexpr double uncommon_at_most = 0.7;
constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();  // no code: sizes are below 2^32

struct Common {
    std::uint32_t value = none;
    double uncommon = 1;  // the share of records with another value
};

Common common_of(const std::uint32_t* codes, std::size_t records, std::size_t width, std::uint32_t size,
                 std::vector<std::uint32_t>& counts) {
    if (size > most_values) return {};
    counts.assign(size, 0);
    const std::size_t step = (records + sampled - 1) / sampled;
    std::size_t seen = 0;
    for (std::size_t r = 0; r < records; r += step, ++seen) ++counts[codes[r * width]];
    const auto most = std::max_element(counts.begin(), counts.end());
    const double uncommon = 1 - static_cast<double>(*most) / static_cast<double>(seen);
    if (uncommon >= uncommon_at_most) return {none, uncommon};
    return {static_cast<std::uint32_t>(most - counts.begin()), uncommon};
}

// Memory that grows, and is not cleared.
template <class T>
class Space {
  public:
    T* of(std::size_t count) {
        if (count > count_) {
            memory_ = std::make_unique_for_overwrite<T[]>(count);
            count_ = count;
        }
        return memory_.get();
    }

  private:
    std::unique_ptr<T[]> memory_;
    std::size_t count_ = 0;
};

// One of the other attributes of a marginal.
struct Side {
    std::uint32_t slot, size, common;
    std::size_t stride;
};

// A marginal to rearrange.
struct Arranged {
    const Wrapping* cells;
    std::size_t stride;  // of the attribute that is drawn
    std::uint32_t others;
    Side sides[3];  // the rarer ones first
    const Side& last() const { return sides[others - 1]; }
};

// Rows of one value for each value of the attribute but the first, from which they are counted; then zeros.
struct Shape {
    std::size_t size, stride;
    void add(const Wrapping* cells, std::size_t step, Wrapping* row) const {
        for (std::size_t v = 1; v < size; ++v) row[v - 1] += cells[v * step] - cells[0];
    }
};

// rows: OUT, one a value of the last side of all these marginals. That of its common value is what the others
// lean on.
void fill_partner(std::span<const Arranged* const> marginals, const Shape& shape, Wrapping* rows) {
    const Side& last = marginals[0]->last();
    std::fill_n(rows, last.size * shape.stride, 0);
    for (const Arranged* marginal : marginals) {
        const Side& first = marginal->sides[0];
        const Wrapping* const cells =
            marginal->cells + (marginal->others == 2 ? first.common * first.stride : 0);
        for (std::size_t c = 0; c < last.size; ++c)
            shape.add(cells + c * marginal->last().stride, marginal->stride, rows + c * shape.stride);
    }
    if (last.common == none) return;
    const Wrapping* const common = rows + last.common * shape.stride;
    for (std::size_t c = 0; c < last.size; ++c)
        if (c != last.common)
            for (std::size_t v = 0; v < shape.stride; ++v) rows[c * shape.stride + v] -= common[v];
}

// rows: OUT, one for each pair of values of the sides; none is read of the first side's common value.
void fill_triple(const Arranged& marginal, const Shape& shape, Wrapping* row) {
    const Side &first = marginal.sides[0], &second = marginal.sides[1];
    const std::size_t step = marginal.stride;
    for (std::size_t b = 0; b < first.size; ++b)
        for (std::size_t c = 0; c < second.size; ++c, row += shape.stride) {
            if (b == first.common) continue;
            const Wrapping* const cells = marginal.cells + b * first.stride + c * second.stride;
            for (std::size_t v = 1; v < shape.size; ++v) row[v - 1] = cells[v * step] - cells[0];
            for (std::size_t v = shape.size - 1; v < shape.stride; ++v) row[v] = 0;
            if (first.common == none) continue;
            const Wrapping* const common = marginal.cells + first.common * first.stride + c * second.stride;
            for (std::size_t v = 1; v < shape.size; ++v) row[v - 1] -= common[v * step] - common[0];
        }
}

}  // namespace

// The columns that the scores of some attributes need, in tiles. Their slots ascend by the share of records
// in which they are uncommon.
class Moves::Records {
  public:
    Records(const Moves& moves, const std::vector<bool>& needed, const std::uint32_t* codes,
            std::size_t records, int threads)
        : records(records), width_(moves.sizes_.size()), slots_(width_, none) {
        std::vector<Common> commons(width_);
        std::vector<std::uint32_t> counts;
        for (std::uint32_t a = 0; a < width_; ++a) {
            if (!needed[a]) continue;
            attributes_.push_back(a);
            commons[a] = common_of(codes + a, records, width_, moves.sizes_[a], counts);
        }
        std::sort(attributes_.begin(), attributes_.end(), [&](std::uint32_t a, std::uint32_t b) {
            return std::pair(commons[a].uncommon, a) < std::pair(commons[b].uncommon, b);
        });
        for (std::size_t s = 0; s < attributes_.size(); ++s) {
            slots_[attributes_[s]] = static_cast<std::uint32_t>(s);
            commons_.push_back(commons[attributes_[s]].value);
        }
        codes_ = std::make_unique_for_overwrite<std::uint32_t[]>(tiles() * attributes_.size() * tile_records);
        uncommon_ = std::make_unique_for_overwrite<std::uint64_t[]>(tiles() * attributes_.size());
        each_tile(threads, [&] {
            return [&](std::size_t t) {
                const std::uint32_t* const here = codes + t * tile_records * width_;
                for (const std::uint32_t a : attributes_) set(t, a, 0, here + a, width_, count(t));
            };
        });
    }

    std::size_t slots() const { return attributes_.size(); }
    std::size_t tiles() const { return (records + tile_records - 1) / tile_records; }
    std::size_t count(std::size_t t) const { return std::min(tile_records, records - t * tile_records); }
    std::uint32_t slot(std::uint32_t attribute) const { return slots_[attribute]; }
    std::uint32_t common(std::uint32_t slot) const { return commons_[slot]; }
    Tile tile(std::size_t t) const {
        return {codes_.get() + t * slots() * tile_records, uncommon_.get() + t * slots()};
    }

    // Sets the codes of an attribute, if it has a slot, for some records of a tile.
    void set(std::size_t t, std::uint32_t attribute, std::size_t from, const std::uint32_t* codes,
             std::size_t step, std::size_t count) {
        const std::uint32_t slot = slots_[attribute];
        if (slot == none) return;
        std::uint32_t* const column = codes_.get() + (t * slots() + slot) * tile_records + from;
        std::uint64_t bits = 0;
        for (std::size_t r = 0; r < count; ++r) {
            column[r] = codes[r * step];
            bits |= std::uint64_t{column[r] != commons_[slot]} << r;
        }
        const std::uint64_t all = ~std::uint64_t{0} >> (tile_records - count) << from;
        std::uint64_t& uncommon = uncommon_[t * slots() + slot];
        uncommon = (uncommon & ~all) | bits << from;
    }

    // Calls visit(t) for each tile, where visit = make(), once a task.
    template <class Make>
    void each_tile(int threads, Make&& make) const {
        for_each_task(static_cast<std::int64_t>((tiles() + tiles_block - 1) / tiles_block), threads,
                      [&](std::int64_t b) {
                          auto&& visit = make();
                          const std::size_t first = static_cast<std::size_t>(b) * tiles_block;
                          for (std::size_t t = first; t < std::min(tiles(), first + tiles_block); ++t)
                              visit(t);
                      });
    }

    const std::size_t records;

  private:
    std::size_t width_;
    std::vector<std::uint32_t> slots_;                 // of attributes
    std::vector<std::uint32_t> attributes_, commons_;  // of slots
    std::unique_ptr<std::uint32_t[]> codes_;
    std::unique_ptr<std::uint64_t[]> uncommon_;
};

struct Moves::Tables {
    ScoreTables scores;
    std::vector<InPlace> in_place;

    struct Fill {
        std::size_t begin, end;  // marginals whose sum the rows are; or one triple
        bool triple;
        Wrapping* rows;
    };
    // Memory of one making, kept for the next.
    std::vector<Arranged> arranged;
    std::vector<const Arranged*> triples, sums;
    std::vector<Fill> fills;
    Space<Wrapping> rows;
};

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

Moves::InPlace Moves::besides(const Marginal& marginal, const Wrapping* values,
                              std::uint32_t attribute) const {
    InPlace found{values + marginal.start, 0};
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

bool Moves::rearranged(const InPlace& marginal, std::uint32_t most_others, std::size_t records) const {
    if (marginal.others > most_others) return false;
    std::size_t rows = 1;
    for (std::uint32_t i = 0; i < marginal.others; ++i) rows *= sizes_[marginal.attributes[i]];
    return rows <= records;
}

namespace {

// others: of a marginal, its attributes, their steps and how many there are.
template <class InPlace, class Records>
Arranged arrange(const InPlace& marginal, const Records& records, const std::vector<std::uint32_t>& sizes) {
    Arranged made{marginal.cells, marginal.stride, marginal.others, {}};
    for (std::uint32_t i = 0; i < marginal.others; ++i) {
        const std::uint32_t a = marginal.attributes[i], slot = records.slot(a);
        made.sides[i] = {slot, sizes[a], records.common(slot), marginal.strides[i]};
    }
    for (std::uint32_t i = 1; i < made.others; ++i)
        for (std::uint32_t k = i; k > 0 && made.sides[k].slot < made.sides[k - 1].slot; --k)
            std::swap(made.sides[k], made.sides[k - 1]);
    return made;
}

// The tables of sums over marginals of up to three attributes, and their memory.
class Sums {
  public:
    Sums(const std::vector<Arranged>& marginals, std::size_t slots, int threads) {
        std::vector<Arranged> of_order[4];
        for (const Arranged& marginal : marginals) of_order[marginal.others].push_back(marginal);
        std::vector<SumTables::First> firsts(slots);
        for (std::uint32_t slot = 0; slot < slots; ++slot) firsts[slot].slot = slot;
        // What a table leans on belongs to one of fewer attributes, which is made after it.
        for (std::uint32_t order = 3; order > 0; --order)
            for (const Group& group : make(order, of_order[order], threads)) {
                const Side* const sides = group.marginals[0].sides;
                SumTables::First& first = firsts[sides[0].slot];
                if (order == 3) {
                    if (first.triples_begin == first.triples_end) first.triples_begin = tables.triples.size();
                    tables.triples.push_back(
                        {{sides[1].slot, sides[2].slot}, {sides[1].size, sides[2].size}, group.values});
                    first.triples_end = tables.triples.size();
                } else if (order == 2) {
                    if (first.pairs_begin == first.pairs_end) first.pairs_begin = tables.pairs.size();
                    tables.pairs.push_back({sides[1].slot, sides[1].size, group.values});
                    first.pairs_end = tables.pairs.size();
                } else {
                    first.values = group.values;
                }
                if (sides[0].common == none) continue;
                Arranged common{group.values + sides[0].common * group.values_of_code, 0, order - 1, {}};
                std::size_t stride = 1;
                for (std::uint32_t i = order - 1; i-- > 0; stride *= common.sides[i].size) {
                    common.sides[i] = sides[i + 1];
                    common.sides[i].stride = stride;
                }
                of_order[order - 1].push_back(common);
            }
        for (const Arranged& marginal : of_order[0]) tables.alone += marginal.cells[0];
        for (const SumTables::First& first : firsts)
            if (first.values || first.pairs_end || first.triples_end) tables.firsts.push_back(first);
    }

    SumTables tables;

  private:
    // Marginals of the same attributes.
    struct Group {
        std::span<const Arranged> marginals;
        std::size_t values_of_code;  // of the first side
        Wrapping* values;
    };

    std::vector<Group> make(std::uint32_t order, std::vector<Arranged>& marginals, int threads) {
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

    static void fill(const Group& group, std::uint32_t order) {
        const Side* const sides = group.marginals[0].sides;
        std::fill_n(group.values, group.values_of_code * sides[0].size, 0);
        for (const Arranged& marginal : group.marginals) {
            const Side none_left{0, 1, none, 0};
            const Side &first = marginal.sides[0], &second = order > 1 ? marginal.sides[1] : none_left,
                       &third = order > 2 ? marginal.sides[2] : none_left;
            Wrapping* sum = group.values;
            for (std::size_t a = 0; a < first.size; ++a)
                for (std::size_t b = 0; b < second.size; ++b) {
                    const Wrapping* const cells = marginal.cells + a * first.stride + b * second.stride;
                    for (std::size_t c = 0; c < third.size; ++c) *sum++ += cells[c * third.stride];
                }
        }
        if (sides[0].common == none) return;
        const Wrapping* const common = group.values + sides[0].common * group.values_of_code;
        for (std::size_t a = 0; a < sides[0].size; ++a) {
            Wrapping* const of_code = group.values + a * group.values_of_code;
            if (a != sides[0].common)
                for (std::size_t i = 0; i < group.values_of_code; ++i) of_code[i] -= common[i];
        }
    }

    std::unique_ptr<Wrapping[]> memory_[4];
};

}  // namespace

void Moves::make_tables(const Wrapping* values, const Records& records, std::uint32_t attribute, int threads,
                        Tables& made) const {
    const std::size_t size = sizes_[attribute];
    const Shape shape{size, row_stride(size)};
    made.scores.stride = shape.stride;
    made.in_place.clear();
    made.arranged.clear();
    for (const std::uint32_t j : of_attribute_[attribute]) {
        const InPlace marginal = besides(marginals_[j], values, attribute);
        if (rearranged(marginal, 2, records.records))
            made.arranged.push_back(arrange(marginal, records, sizes_));
        else
            made.in_place.push_back(marginal);
    }

    // What the rows of each partner sum, and what its triples are.
    made.triples.clear();
    made.sums.clear();
    std::size_t rows = 1;
    for (const Arranged& marginal : made.arranged) {
        const Side &first = marginal.sides[0], &second = marginal.sides[1];
        if (marginal.others == 2) {
            made.triples.push_back(&marginal);
            rows += std::size_t{first.size} * second.size;
        }
        if (marginal.others == 1 || (marginal.others == 2 && first.common != none))
            made.sums.push_back(&marginal);
    }
    std::sort(made.triples.begin(), made.triples.end(),
              [](const Arranged* a, const Arranged* b) { return a->sides[0].slot < b->sides[0].slot; });
    std::sort(made.sums.begin(), made.sums.end(),
              [](const Arranged* a, const Arranged* b) { return a->last().slot < b->last().slot; });
    for (std::size_t i = 0; i < made.sums.size(); ++i)
        if (!i || made.sums[i]->last().slot != made.sums[i - 1]->last().slot)
            rows += made.sums[i]->last().size;

    Wrapping* const alone = made.rows.of(rows * shape.stride);
    Wrapping* next = alone + shape.stride;
    made.fills.clear();
    made.scores.partners.clear();
    made.scores.triples.clear();
    std::size_t sum = 0, triple = 0;
    for (std::uint32_t slot = 0; slot < records.slots(); ++slot) {
        ScoreTables::Partner partner{slot, nullptr, triple, triple};
        const std::size_t begin = sum;
        while (sum < made.sums.size() && made.sums[sum]->last().slot == slot) ++sum;
        if (sum > begin) {
            partner.rows = next;
            made.fills.push_back({begin, sum, false, next});
            next += made.sums[begin]->last().size * shape.stride;
        }
        for (; triple < made.triples.size() && made.triples[triple]->sides[0].slot == slot; ++triple) {
            const Side &first = made.triples[triple]->sides[0], &second = made.triples[triple]->sides[1];
            made.scores.triples.push_back({second.slot, second.size, next});
            made.fills.push_back({triple, triple + 1, true, next});
            next += first.size * second.size * shape.stride;
        }
        partner.end = triple;
        if (partner.rows || partner.end > partner.begin) made.scores.partners.push_back(partner);
    }
    // Partners with as many triples one after the other: a processor foresees where their loops end.
    std::sort(made.scores.partners.begin(), made.scores.partners.end(), [](const auto& a, const auto& b) {
        return std::tuple(a.end - a.begin, !a.rows, a.slot) < std::tuple(b.end - b.begin, !b.rows, b.slot);
    });
    // Small tables are filled sooner than a thread is there.
    for_each_task(static_cast<std::int64_t>(made.fills.size()),
                  rows * shape.stride < alone_below ? 1 : threads, [&](std::int64_t i) {
                      const Tables::Fill& fill = made.fills[i];
                      if (fill.triple)
                          fill_triple(*made.triples[fill.begin], shape, fill.rows);
                      else
                          fill_partner(std::span(made.sums).subspan(fill.begin, fill.end - fill.begin), shape,
                                       fill.rows);
                  });
    std::fill_n(alone, shape.stride, 0);
    for (const Arranged& marginal : made.arranged)
        if (marginal.others == 0) shape.add(marginal.cells, marginal.stride, alone);
    for (const ScoreTables::Partner& partner : made.scores.partners) {
        const std::uint32_t common = records.common(partner.slot);
        if (partner.rows && common != none)
            for (std::size_t v = 0; v < shape.stride; ++v)
                alone[v] += partner.rows[common * shape.stride + v];
    }
    made.scores.alone = alone;
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
                const InPlace marginal = besides(marginals_[j], cells, draw.attribute);
                if (!rearranged(marginal, 2, records)) continue;
                for (std::uint32_t i = 0; i < marginal.others; ++i) needed[marginal.attributes[i]] = true;
            }
    Records tiled(*this, needed, codes, records, threads);
    const MoveSweeps& sweeps = move_sweeps();
    const PowerOfTwo power(exponent);
    Tables tables;
    for (const Draw& draw : draws) {
        const std::size_t size = sizes_[draw.attribute], stride = row_stride(size);
        const bool scored = cells && !of_attribute_[draw.attribute].empty() && size > 1;
        if (scored) make_tables(cells, tiled, draw.attribute, threads, tables);
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
                        for (const InPlace& marginal : tables.in_place)
                            for (std::size_t r = 0; r < count; ++r) {
                                const Wrapping* at = marginal.cells;
                                for (std::uint32_t i = 0; i < marginal.others; ++i)
                                    at += here[r * width + marginal.attributes[i]] * marginal.strides[i];
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
    std::vector<InPlace> in_place, near;
    for (const Marginal& marginal : marginals_) {
        const InPlace all = besides(marginal, cells, none);
        (rearranged(all, 3, records) ? near : in_place).push_back(all);
    }
    for (const InPlace& marginal : near)
        for (std::uint32_t i = 0; i < marginal.others; ++i) needed[marginal.attributes[i]] = true;
    const Records tiled(*this, needed, codes, records, threads);
    std::vector<Arranged> arranged;
    for (const InPlace& marginal : near) arranged.push_back(arrange(marginal, tiled, sizes_));
    const Sums sums(arranged, tiled.slots(), threads);
    const MoveSweeps& sweeps = move_sweeps();
    const PowerOfTwo power(exponent);
    tiled.each_tile(threads, [&] {
        return [&](std::size_t t) {
            Wrapping of_records[tile_records];
            const std::size_t count = tiled.count(t), first = t * tile_records;
            sweeps.sum(sums.tables, tiled.tile(t), count, of_records);
            for (const InPlace& marginal : in_place)
                for (std::size_t r = 0; r < count; ++r) {
                    const Wrapping* at = marginal.cells;
                    for (std::uint32_t i = 0; i < marginal.others; ++i)
                        at += codes[(first + r) * width + marginal.attributes[i]] * marginal.strides[i];
                    of_records[r] += *at;
                }
            for (std::size_t r = 0; r < count; ++r) potentials[first + r] = power * to_double(of_records[r]);
        };
    });
}

}  // namespace privmw
