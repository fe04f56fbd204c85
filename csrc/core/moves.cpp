#include "core/moves.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>

#include "core/exponential.hpp"
#include "core/parallel.hpp"
#include "core/power_of_two.hpp"

namespace privmw {

namespace {

constexpr std::size_t records_block = 512;   // records of a task
constexpr std::size_t tile_records = 64;     // whose scores are added together, marginal after marginal
constexpr std::size_t tile_scores = 2048;    // 16 KB
constexpr std::size_t sampled = 1024;        // records that tell the commonest values
constexpr std::uint32_t most_values = 4096;  // of an attribute that may have a common value
constexpr std::size_t alone_below = std::size_t{1} << 17;  // values that one thread rearranges
// An attribute has a common value if fewer records than this have another. Against no leaning at all, a sweep
// over 8,000 records took 0.55 of the time with all three-way marginals of 67 attributes, 0.6 with those of
// ADULT, 0.9 with 1,024 of the 67 attributes, and as long with uniform attributes; there 0.8 would cost 20 %.
constexpr double uncommon_at_most = 0.5;
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

// Adds to the scores (IN and OUT, `stride` a record) of some records a row each. records: null for the first
// `count`. row: of a record, its place among the rows.
template <std::size_t stride, class Row>
void add_rows(const Wrapping* rows, const std::uint32_t* records, std::size_t count, Row&& row,
              Wrapping* scores) {
    const auto add = [&](std::size_t r) {
        const Wrapping* const added = rows + row(r) * stride;
        Wrapping* const sums = scores + r * stride;
        Wrapping totals[stride];  // all is read before it is written: compilers add several at once
        for (std::size_t v = 0; v < stride; ++v) totals[v] = sums[v] + added[v];
        std::copy_n(totals, stride, sums);
    };
    if (records)
        for (std::size_t k = 0; k < count; ++k) add(records[k]);
    else
        for (std::size_t r = 0; r < count; ++r) add(r);
}

// The same for any stride, an even number: short rows are added without a loop.
template <class Row>
void add_rows(const Wrapping* rows, std::size_t stride, const std::uint32_t* records, std::size_t count,
              Row&& row, Wrapping* scores) {
    switch (stride) {
        case 2:
            return add_rows<2>(rows, records, count, row, scores);
        case 4:
            return add_rows<4>(rows, records, count, row, scores);
        case 6:
            return add_rows<6>(rows, records, count, row, scores);
        case 8:
            return add_rows<8>(rows, records, count, row, scores);
    }
    for (std::size_t k = 0; k < count; ++k) {
        const std::size_t r = records ? records[k] : k;
        const Wrapping* __restrict added = rows + row(r) * stride;
        Wrapping* __restrict sums = scores + r * stride;
        for (std::size_t v = 0; v < stride; v += 2) {
            const Wrapping totals[2] = {sums[v] + added[v], sums[v + 1] + added[v + 1]};
            std::copy_n(totals, 2, sums + v);
        }
    }
}

// One of the other attributes of a marginal: at first its position, then its place among the partners.
struct Side {
    std::size_t partner, stride;
    std::uint32_t size, common;
};

// A marginal to rearrange.
struct Arranged {
    const Wrapping* cells;
    std::size_t stride;  // of the attribute that is drawn
    std::uint32_t others;
    Side sides[2];  // a triple's rarer one first
};

// Rows of one value for each of the `size` values of the attribute, and a zero where that is odd.
struct Shape {
    std::size_t size, stride;
    void add(const Wrapping* cells, std::size_t step, Wrapping* row) const {
        for (std::size_t v = 0; v < size; ++v) row[v] += cells[v * step];
    }
    void subtract(const Wrapping* cells, std::size_t step, Wrapping* row) const {
        for (std::size_t v = 0; v < size; ++v) row[v] -= cells[v * step];
    }
};

// rows: OUT, one a value of the last side of all these marginals. That of its common value is what the others
// lean on.
void fill_partner(std::span<const Arranged* const> marginals, const Shape& shape, Wrapping* rows) {
    const Side& last = marginals[0]->sides[marginals[0]->others - 1];
    std::fill_n(rows, last.size * shape.stride, 0);
    for (const Arranged* marginal : marginals) {
        const Side &first = marginal->sides[0], &side = marginal->sides[marginal->others - 1];
        const Wrapping* const cells =
            marginal->cells + (marginal->others == 2 ? first.common * first.stride : 0);
        for (std::size_t c = 0; c < side.size; ++c)
            shape.add(cells + c * side.stride, marginal->stride, rows + c * shape.stride);
    }
    if (last.common == none) return;
    for (std::size_t c = 0; c < last.size; ++c)
        if (c != last.common) shape.subtract(rows + last.common * shape.stride, 1, rows + c * shape.stride);
}

// rows: OUT, one for each pair of values of the sides.
void fill_triple(const Arranged& marginal, const Shape& shape, Wrapping* row) {
    const auto& [first, second] = marginal.sides;
    for (std::size_t b = 0; b < first.size; ++b)
        for (std::size_t c = 0; c < second.size; ++c, row += shape.stride) {
            const Wrapping* const cells = marginal.cells + c * second.stride;
            std::fill_n(row, shape.stride, 0);
            shape.add(cells + b * first.stride, marginal.stride, row);
            if (first.common != none)
                shape.subtract(cells + first.common * first.stride, marginal.stride, row);
        }
}

// The draws of a tile of records.
class Draws {
  public:
    Draws(int exponent, std::size_t stride, std::size_t records)
        : power_(exponent), stride_(stride), below_(stride * records), weights_(stride * records) {}

    // codes: OUT, one every `width`. scores: IN, records x stride, those of the attribute's values first.
    void draw(const Wrapping* scores, const Weighing& weighing, const std::uint64_t* words, std::size_t first,
              std::size_t records, std::size_t width, std::uint32_t* codes) {
        const std::size_t size = weighing.base.size();
        const PowerOfTwo power = power_;
        for (std::size_t r = 0; r < records; ++r) {
            double* const weights = weights_.data() + r * stride_;
            double* const below = below_.data() + r * stride_;
            const Wrapping* const of_record = scores + r * stride_;
            std::copy_n(weighing.base.data(), size, weights);
            weights[weighing.kept[first + r]] += weighing.keep;
            std::int64_t most = std::numeric_limits<std::int64_t>::min();
            for (std::size_t v = 0; v < size; ++v) {
                const auto score = static_cast<std::int64_t>(of_record[v]);
                most = weights[v] > 0 && score > most ? score : most;
            }
            for (std::size_t v = 0; v < size; ++v) {
                // Values of weight zero may have scores above the most: they stay zero.
                const double x = power * to_double(of_record[v] - static_cast<Wrapping>(most));
                weights[v] = x < least_normal ? 0 : weights[v];
                below[v] = x < 0 ? (x > least_normal ? x : least_normal) : 0;
            }
        }
        double* const all = weights_.data();
        const double* const powers = below_.data();
        for (std::size_t i = 0; i < records * stride_; ++i) all[i] *= exp_of_negative(powers[i]);
        for (std::size_t r = 0; r < records; ++r)
            codes[r * width] = choose(weights_.data() + r * stride_, size, words[first + r]);
    }

  private:
    // The first value whose cumulative weight is above the word's share of the total.
    static std::uint32_t choose(double* weights, std::size_t size, std::uint64_t word) {
        double total = 0;
        std::uint32_t last = 0;
        for (std::size_t v = 0; v < size; ++v) {
            last = weights[v] > 0 ? static_cast<std::uint32_t>(v) : last;
            weights[v] = total += weights[v];
        }
        const double point = static_cast<double>(word >> 11) * 0x1p-53 * total;
        std::uint32_t below = 0;
        for (std::size_t v = 0; v < size; ++v) below += weights[v] <= point;
        return std::min(below, last);  // beyond the last where a subnormal total is rounded
    }

    PowerOfTwo power_;
    std::size_t stride_;
    std::vector<double> below_, weights_;
};

}  // namespace

// The marginals of the attribute that is drawn, rearranged: a row holds the values of a cell's other codes,
// one for each value of the attribute. A marginal of three leans on the common value b0 of the attribute b
// that is uncommon in fewer records: f(v, b, c) becomes f(v, b0, c), which is added to the rows of c, and
// f(v, b, c) - f(v, b0, c), which only records with an uncommon b have to add. In the same way the rows of c
// lean on their common one. Sums are modulo 2^64: a score stays exact.
struct Moves::Tables {
    struct Triple {
        std::size_t other;  // the other partner
        const Wrapping* rows;
    };
    struct Partner {
        std::uint32_t attribute, size;
        std::uint32_t common;    // none: all its values are uncommon
        const Wrapping* rows;    // one a value, summed over marginals; null if there are none
        std::size_t begin, end;  // its triples: those whose other partner comes after it
    };
    // Read where it is: too large to be rearranged for so few records, or of four attributes or more.
    struct InPlace {
        std::size_t start, stride;
        std::uint32_t others, attributes[5];
        std::size_t strides[5];
    };

    std::size_t stride;  // of rows: the attribute's size, made even
    std::unique_ptr<Wrapping[]> memory;
    const Wrapping* alone;          // the row that all records add
    std::vector<Partner> partners;  // ascending by the share of records in which they are uncommon
    std::vector<Triple> triples;
    std::vector<InPlace> in_place;

    // scores: OUT, count x stride. aside: partners x count codes, and count more.
    void add(const Wrapping* values, const std::uint32_t* codes, std::size_t width, std::size_t count,
             std::size_t size, std::uint32_t* aside, Wrapping* scores) const;
};

void Moves::Tables::add(const Wrapping* values, const std::uint32_t* codes, std::size_t width,
                        std::size_t count, std::size_t size, std::uint32_t* aside, Wrapping* scores) const {
    for (std::size_t r = 0; r < count; ++r) std::copy_n(alone, stride, scores + r * stride);
    std::uint32_t* const uncommon = aside + partners.size() * count;
    for (std::size_t i = partners.size(); i-- > 0;) {  // the other partner of a triple is at hand
        const Partner& partner = partners[i];
        const std::uint32_t* const column = codes + partner.attribute;
        const std::uint32_t common = partner.common;
        std::uint32_t* const first = aside + i * count;
        std::size_t many = 0;
        for (std::size_t r = 0; r < count; ++r) {
            const std::uint32_t code = column[r * width];
            first[r] = code;
            uncommon[many] = static_cast<std::uint32_t>(r);
            many += code != common;
        }
        const std::uint32_t* const chosen = many < count ? uncommon : nullptr;
        if (partner.rows)
            add_rows(
                partner.rows, stride, chosen, many, [first](std::size_t r) { return std::size_t{first[r]}; },
                scores);
        for (std::size_t t = partner.begin; t < partner.end; ++t) {
            const std::uint32_t* const second = aside + triples[t].other * count;
            const std::size_t second_size = partners[triples[t].other].size;
            add_rows(
                triples[t].rows, stride, chosen, many,
                [=](std::size_t r) { return first[r] * second_size + second[r]; }, scores);
        }
    }
    for (const InPlace& marginal : in_place)
        for (std::size_t r = 0; r < count; ++r) {
            const Wrapping* cells = values + marginal.start;
            for (std::uint32_t i = 0; i < marginal.others; ++i)
                cells += codes[r * width + marginal.attributes[i]] * marginal.strides[i];
            for (std::size_t v = 0; v < size; ++v) scores[r * stride + v] += cells[v * marginal.stride];
        }
}

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

Moves::Tables Moves::make_tables(const Wrapping* values, const std::uint32_t* codes, std::size_t records,
                                 std::uint32_t attribute, int threads) const {
    const std::size_t size = sizes_[attribute];
    const Shape shape{size, size + (size & 1)};
    Tables made;
    made.stride = shape.stride;
    std::vector<Arranged> arranged;
    std::vector<std::size_t> partner_of(sizes_.size(), none);
    std::vector<Common> commons(sizes_.size());
    std::vector<std::uint32_t> others, counts;
    for (const std::uint32_t j : of_attribute_[attribute]) {
        const Marginal& marginal = marginals_[j];
        Tables::InPlace in_place{marginal.start, 0, 0, {}, {}};
        std::size_t rows = 1;
        for (std::uint32_t i = 0; i < marginal.order; ++i) {
            if (marginal.attributes[i] == attribute) {
                in_place.stride = marginal.strides[i];
                continue;
            }
            rows *= sizes_[marginal.attributes[i]];
            in_place.attributes[in_place.others] = marginal.attributes[i];
            in_place.strides[in_place.others++] = marginal.strides[i];
        }
        if (in_place.others > 2 || rows > records) {
            made.in_place.push_back(in_place);
            continue;
        }
        Arranged next{values + marginal.start, in_place.stride, in_place.others, {}};
        for (std::uint32_t i = 0; i < next.others; ++i) {
            const std::uint32_t a = in_place.attributes[i];
            next.sides[i] = {a, in_place.strides[i], sizes_[a], none};
            if (partner_of[a] != none) continue;
            partner_of[a] = 0;
            others.push_back(a);
            commons[a] = common_of(codes + a, records, sizes_.size(), sizes_[a], counts);
        }
        arranged.push_back(next);
    }
    std::sort(others.begin(), others.end(), [&](std::uint32_t a, std::uint32_t b) {
        return std::pair(commons[a].uncommon, a) < std::pair(commons[b].uncommon, b);
    });
    for (const std::uint32_t a : others) {
        partner_of[a] = made.partners.size();
        made.partners.push_back({a, sizes_[a], commons[a].value, nullptr, 0, 0});
    }

    // What the rows of each partner sum, and what its triples are.
    std::vector<std::vector<const Arranged*>> sums(others.size()), triples(others.size());
    std::size_t rows = 1;
    for (Arranged& marginal : arranged) {
        for (std::uint32_t i = 0; i < marginal.others; ++i) {
            Side& side = marginal.sides[i];
            side.common = commons[side.partner].value;
            side.partner = partner_of[side.partner];
        }
        auto& [first, second] = marginal.sides;
        if (marginal.others == 1) sums[first.partner].push_back(&marginal);
        if (marginal.others < 2) continue;
        if (first.partner > second.partner) std::swap(first, second);
        triples[first.partner].push_back(&marginal);
        rows += std::size_t{first.size} * second.size;
        if (first.common != none) sums[second.partner].push_back(&marginal);
    }
    for (std::size_t i = 0; i < others.size(); ++i)
        if (!sums[i].empty()) rows += made.partners[i].size;

    made.memory = std::make_unique_for_overwrite<Wrapping[]>(rows * shape.stride);
    Wrapping* const alone_row = made.memory.get();
    Wrapping* next = alone_row + shape.stride;
    std::vector<std::function<void()>> fills;
    for (std::size_t i = 0; i < others.size(); ++i) {
        Tables::Partner& partner = made.partners[i];
        if (!sums[i].empty()) {
            partner.rows = next;
            fills.push_back([&, i, next] { fill_partner(sums[i], shape, next); });
            next += partner.size * shape.stride;
        }
        partner.begin = made.triples.size();
        for (const Arranged* marginal : triples[i]) {
            made.triples.push_back({marginal->sides[1].partner, next});
            fills.push_back([&shape, marginal, next] { fill_triple(*marginal, shape, next); });
            next += partner.size * marginal->sides[1].size * shape.stride;
        }
        partner.end = made.triples.size();
    }
    // Small tables are filled sooner than a thread is there.
    for_each_task(static_cast<std::int64_t>(fills.size()), rows * shape.stride < alone_below ? 1 : threads,
                  [&](std::int64_t i) { fills[i](); });
    std::fill_n(alone_row, shape.stride, 0);
    for (const Arranged& marginal : arranged)
        if (marginal.others == 0) shape.add(marginal.cells, marginal.stride, alone_row);
    for (const Tables::Partner& partner : made.partners)
        if (partner.rows && partner.common != none)
            shape.add(partner.rows + partner.common * shape.stride, 1, alone_row);
    made.alone = alone_row;
    return made;
}

void Moves::redraw(const std::int64_t* values, int exponent, std::uint32_t* codes, std::size_t records,
                   std::uint32_t attribute, const Weighing& weighing, const std::uint64_t* words,
                   int threads) const {
    if (!records) return;
    const auto* const cells = reinterpret_cast<const Wrapping*>(values);
    const Tables tables = make_tables(cells, codes, records, attribute, threads);
    const std::size_t width = sizes_.size(), stride = tables.stride;
    const std::size_t tile = std::clamp<std::size_t>(tile_scores / stride, 1, tile_records);
    for_each_task(static_cast<std::int64_t>((records + records_block - 1) / records_block), threads,
                  [&](std::int64_t b) {
                      const std::size_t first = static_cast<std::size_t>(b) * records_block,
                                        last = std::min(records, first + records_block);
                      std::vector<std::uint32_t> aside((tables.partners.size() + 1) * tile);
                      std::vector<Wrapping> scores(tile * stride);
                      Draws draws(exponent, stride, tile);
                      for (std::size_t from = first; from < last; from += tile) {
                          const std::size_t count = std::min(tile, last - from);
                          std::uint32_t* const here = codes + from * width;
                          tables.add(cells, here, width, count, weighing.base.size(), aside.data(),
                                     scores.data());
                          draws.draw(scores.data(), weighing, words, from, count, width, here + attribute);
                      }
                  });
}

void Moves::potentials(const std::int64_t* values, int exponent, const std::uint32_t* codes,
                       std::size_t records, int threads, double* potentials) const {
    const auto* const cells = reinterpret_cast<const Wrapping*>(values);
    const PowerOfTwo power(exponent);
    for_each_task(static_cast<std::int64_t>((records + records_block - 1) / records_block), threads,
                  [&](std::int64_t b) {
                      const std::size_t first = static_cast<std::size_t>(b) * records_block,
                                        count = std::min(records_block, records - first);
                      const std::size_t width = sizes_.size();
                      std::vector<std::uint32_t> columns(width * count);
                      for (std::size_t r = 0; r < count; ++r)
                          for (std::size_t a = 0; a < width; ++a)
                              columns[a * count + r] = codes[(first + r) * width + a];
                      std::vector<std::size_t> places(count);
                      std::vector<Wrapping> sums(count);
                      for (const Marginal& marginal : marginals_) {
                          std::fill(places.begin(), places.end(), marginal.start);
                          for (std::uint32_t i = 0; i < marginal.order; ++i) {
                              const std::uint32_t* const column =
                                  columns.data() + marginal.attributes[i] * count;
                              const std::size_t stride = marginal.strides[i];
                              for (std::size_t r = 0; r < count; ++r) places[r] += column[r] * stride;
                          }
                          for (std::size_t r = 0; r < count; ++r) sums[r] += cells[places[r]];
                      }
                      for (std::size_t r = 0; r < count; ++r)
                          potentials[first + r] = power * to_double(sums[r]);
                  });
}

}  // namespace privmw
