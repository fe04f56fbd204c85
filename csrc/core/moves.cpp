#include "core/moves.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <memory>
#include <numeric>

#include "core/exponential.hpp"
#include "core/parallel.hpp"
#include "core/power_of_two.hpp"

namespace privmw {

namespace {

constexpr std::size_t block = 512;          // records of a task
constexpr std::size_t tile_scores = 2048;   // scores whose exponentials are taken together: 16 KB
constexpr std::size_t sampled = 1024;       // records that tell the commonest values
constexpr std::uint32_t most_values = 4096; // of an attribute that has a commonest value
constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();  // no code: sizes are below 2^32

double lean_below() {
    const char* set = std::getenv("LEAN");
    return set ? std::atof(set) : 0.75;
}

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
    if (uncommon >= lean_below()) return {none, uncommon};
    return {static_cast<std::uint32_t>(most - counts.begin()), uncommon};
}

// sums: OUT, the totals of `width` columns of rows.
template <std::size_t width>
void add_rows(std::span<const Wrapping* const> rows, std::size_t at, Wrapping* sums) {
    Wrapping totals[width] = {};
    for (const Wrapping* row : rows)
        for (std::size_t i = 0; i < width; ++i) totals[i] += row[at + i];
    std::copy_n(totals, width, sums + at);
}

void add_rows(std::span<const Wrapping* const> rows, std::size_t stride, Wrapping* sums) {
    std::size_t at = 0;
    for (; at + 8 <= stride; at += 8) add_rows<8>(rows, at, sums);
    if (stride & 4) {
        add_rows<4>(rows, at, sums);
        at += 4;
    }
    if (stride & 2) add_rows<2>(rows, at, sums);
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
                const double x = power_ * to_double(of_record[v] - static_cast<Wrapping>(most));
                below[v] = x < 0 ? x : 0;
            }
        }
        for (std::size_t i = 0; i < records * stride_; ++i) {
            const double x = below_[i], power = exp_of_negative(x > least_normal ? x : least_normal);
            weights_[i] *= x < least_normal ? 0 : power;
        }
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
// one for each value of the attribute. An attribute with a common value leans on it: f(v, b, c) becomes
//   f(v, b0, c0) + [f(v, b, c0) - f(v, b0, c0)] + [f(v, b0, c) - f(v, b0, c0)] + the rest,
// where a record adds the second part, summed over marginals, only if its b is uncommon, and the rest only if
// b and c are. Without a common value, an attribute counts as uncommon everywhere.
struct Moves::Tables {
    struct Other {
        std::uint32_t attribute, common, size;
        const Wrapping* rows;  // of two, summed over marginals
    };
    struct Partner {
        std::uint32_t attribute, common;
        const Wrapping* rows;      // by code, summed over marginals; null if there are none
        std::size_t begin, end;    // its triples
    };
    // Read where it is: too large to be rearranged for so few records, or of four attributes or more.
    struct InPlace {
        std::size_t start, stride;
        std::uint32_t order, attributes[5];
        std::size_t strides[5];
    };

    std::size_t stride;  // of rows: the attribute's size, made even
    std::unique_ptr<Wrapping[]> memory;
    const Wrapping* alone;
    std::vector<Partner> partners;  // rarest first
    std::vector<Other> triples;     // by their rarer partner
    std::vector<InPlace> in_place;

    std::size_t most_rows() const { return 1 + partners.size() + triples.size(); }

    // rows: OUT, those that a record adds.
    std::size_t find_rows(const std::uint32_t* codes, std::uint32_t* uncommon, const Wrapping** rows) const {
        std::size_t partners_here = 0, count = 1;
        for (std::size_t i = 0; i < partners.size(); ++i) {
            uncommon[partners_here] = static_cast<std::uint32_t>(i);
            partners_here += codes[partners[i].attribute] != partners[i].common;
        }
        rows[0] = alone;
        for (std::size_t k = 0; k < partners_here; ++k) {
            const Partner& partner = partners[uncommon[k]];
            const std::size_t code = codes[partner.attribute];
            if (partner.rows) rows[count++] = partner.rows + code * stride;
            for (std::size_t t = partner.begin; t < partner.end; ++t) {
                const Other& other = triples[t];
                const std::uint32_t second = codes[other.attribute];
                rows[count] = other.rows + (code * other.size + second) * stride;
                count += second != other.common;
            }
        }
        return count;
    }

    void add_in_place(const std::uint32_t* codes, const Wrapping* values, std::size_t size, Wrapping* sums) const {
        for (const InPlace& marginal : in_place) {
            std::size_t at = marginal.start;
            for (std::uint32_t i = 0; i < marginal.order; ++i)
                at += codes[marginal.attributes[i]] * marginal.strides[i];
            for (std::size_t v = 0; v < size; ++v) sums[v] += values[at + v * marginal.stride];
        }
    }
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

Moves::Tables Moves::make_tables(const Wrapping* values, const std::uint32_t* codes, std::size_t records,
                                 std::uint32_t attribute, int threads) const {
    struct Side {
        std::size_t partner, stride;
    };
    struct Leaning {
        const Wrapping* cells;
        std::size_t stride;  // of the attribute
        std::uint32_t others;
        Side sides[2];
    };
    const std::uint32_t size = sizes_[attribute];
    Tables made;
    made.stride = size + (size & 1);
    std::vector<Leaning> leaning;
    std::vector<std::uint32_t> partner_of(sizes_.size(), none), chosen, counts;
    for (const std::uint32_t j : of_attribute_[attribute]) {
        const Marginal& marginal = marginals_[j];
        Leaning lean{values + marginal.start, 0, 0, {}};
        Tables::InPlace in_place{marginal.start, 0, 0, {}, {}};
        std::size_t slabs = 1;
        for (std::uint32_t i = 0; i < marginal.order; ++i) {
            const std::uint32_t a = marginal.attributes[i];
            if (a == attribute) {
                lean.stride = in_place.stride = marginal.strides[i];
                continue;
            }
            slabs *= sizes_[a];
            in_place.attributes[in_place.order] = a;
            in_place.strides[in_place.order++] = marginal.strides[i];
        }
        if (in_place.order > 2 || slabs > records) {
            made.in_place.push_back(in_place);
            continue;
        }
        for (; lean.others < in_place.order; ++lean.others) {
            const std::uint32_t a = in_place.attributes[lean.others];
            if (partner_of[a] == none) {
                partner_of[a] = 0;
                chosen.push_back(a);
            }
            lean.sides[lean.others] = {a, in_place.strides[lean.others]};
        }
        leaning.push_back(lean);
    }
    std::vector<Common> commons(sizes_.size());
    for (const std::uint32_t a : chosen)
        commons[a] = common_of(codes + a, records, sizes_.size(), sizes_[a], counts);
    std::stable_sort(chosen.begin(), chosen.end(),
                     [&](auto a, auto b) { return commons[a].uncommon < commons[b].uncommon; });
    for (std::size_t i = 0; i < chosen.size(); ++i) {
        partner_of[chosen[i]] = static_cast<std::uint32_t>(i);
        made.partners.push_back({chosen[i], commons[chosen[i]].value, nullptr, 0, 0});
    }
    const auto size_of = [&](std::size_t partner) { return sizes_[made.partners[partner].attribute]; };
    const auto common_at = [&](std::size_t partner) { return made.partners[partner].common; };

    // The rarer partner first, and the triples of one partner together.
    std::vector<std::vector<std::size_t>> of_partner(chosen.size());  // what its rows sum
    std::size_t words = made.stride;
    for (Leaning& lean : leaning) {
        for (std::uint32_t i = 0; i < lean.others; ++i)
            lean.sides[i].partner = partner_of[lean.sides[i].partner];
        if (lean.others == 2 && lean.sides[0].partner > lean.sides[1].partner)
            std::swap(lean.sides[0], lean.sides[1]);
    }
    std::stable_sort(leaning.begin(), leaning.end(), [](const Leaning& a, const Leaning& b) {
        return a.others != b.others ? a.others < b.others : a.sides[0].partner < b.sides[0].partner;
    });
    std::size_t first_triple = 0;
    for (std::size_t j = 0; j < leaning.size(); ++j) {
        const Leaning& lean = leaning[j];
        first_triple += lean.others < 2;
        for (std::uint32_t i = 0; i < lean.others; ++i)
            if (lean.others == 1 || common_at(lean.sides[1 - i].partner) != none)
                of_partner[lean.sides[i].partner].push_back(j);
        if (lean.others == 2) {
            const std::size_t partner = lean.sides[0].partner, other = lean.sides[1].partner;
            if (made.partners[partner].begin == made.partners[partner].end)
                made.partners[partner].begin = made.triples.size();
            made.triples.push_back(
                {made.partners[other].attribute, common_at(other), size_of(other), nullptr});
            made.partners[partner].end = made.triples.size();
            words += made.stride * size_of(partner) * size_of(other);
        }
    }
    for (std::size_t i = 0; i < chosen.size(); ++i)
        if (!of_partner[i].empty()) words += made.stride * size_of(i);
    made.memory = std::make_unique_for_overwrite<Wrapping[]>(words);
    Wrapping* next = made.memory.get();
    const auto set_aside = [&](std::size_t rows) {
        Wrapping* const aside = next;
        next += rows * made.stride;
        return aside;
    };
    Wrapping* const alone = set_aside(1);
    made.alone = alone;
    std::fill_n(alone, made.stride, 0);
    for (const Leaning& lean : leaning) {
        const Wrapping* cells = lean.cells;
        bool leans = true;
        for (std::uint32_t i = 0; i < lean.others; ++i) {
            leans &= common_at(lean.sides[i].partner) != none;
            cells += leans ? common_at(lean.sides[i].partner) * lean.sides[i].stride : 0;
        }
        if (leans)
            for (std::size_t v = 0; v < size; ++v) alone[v] += cells[v * lean.stride];
    }
    std::vector<Wrapping*> partner_rows(chosen.size()), triple_rows(made.triples.size());
    for (std::size_t i = 0; i < chosen.size(); ++i)
        if (!of_partner[i].empty()) made.partners[i].rows = partner_rows[i] = set_aside(size_of(i));
    for (std::size_t t = 0; t < made.triples.size(); ++t)
        made.triples[t].rows = triple_rows[t] =
            set_aside(std::size_t{size_of(leaning[first_triple + t].sides[0].partner)} * made.triples[t].size);

    const auto fill_partner = [&](std::size_t i) {
        Wrapping* const rows = partner_rows[i];
        if (!rows) return;
        std::fill_n(rows, made.stride * size_of(i), 0);
        for (const std::size_t j : of_partner[i]) {
            const Leaning& lean = leaning[j];
            const std::uint32_t side = lean.others == 2 && lean.sides[1].partner == i;
            const Wrapping* cells = lean.cells;
            if (lean.others == 2)
                cells += common_at(lean.sides[1 - side].partner) * lean.sides[1 - side].stride;
            for (std::uint32_t b = 0; b < size_of(i); ++b)
                for (std::size_t v = 0; v < size; ++v)
                    rows[b * made.stride + v] += cells[b * lean.sides[side].stride + v * lean.stride];
        }
        if (common_at(i) != none) {
            const std::vector<Wrapping> taken(rows + common_at(i) * made.stride,
                                              rows + (common_at(i) + 1) * made.stride);
            for (std::uint32_t b = 0; b < size_of(i); ++b)
                for (std::size_t v = 0; v < size; ++v) rows[b * made.stride + v] -= taken[v];
        }
    };
    const auto fill_triple = [&](std::size_t t) {
        const Leaning& lean = leaning[first_triple + t];
        const std::uint32_t b0 = common_at(lean.sides[0].partner), c0 = common_at(lean.sides[1].partner);
        const std::size_t b_stride = lean.sides[0].stride, c_stride = lean.sides[1].stride;
        const std::uint32_t b_size = size_of(lean.sides[0].partner), c_size = made.triples[t].size;
        Wrapping* row = triple_rows[t];
        for (std::uint32_t b = 0; b < b_size; ++b)
            for (std::uint32_t c = 0; c < c_size; ++c, row += made.stride) {
                if (b == b0 || c == c0) continue;  // no record adds it
                const Wrapping* const cells = lean.cells;
                const std::size_t at = b * b_stride + c * c_stride;
                for (std::size_t v = 0; v < size; ++v) row[v] = cells[at + v * lean.stride];
                if (b0 != none) {
                    const std::size_t at_b0 = b0 * b_stride + c * c_stride;
                    for (std::size_t v = 0; v < size; ++v) row[v] -= cells[at_b0 + v * lean.stride];
                }
                if (c0 != none) {
                    const std::size_t at_c0 = b * b_stride + c0 * c_stride;
                    for (std::size_t v = 0; v < size; ++v) row[v] -= cells[at_c0 + v * lean.stride];
                }
                if (b0 != none && c0 != none) {
                    const std::size_t at_both = b0 * b_stride + c0 * c_stride;
                    for (std::size_t v = 0; v < size; ++v) row[v] += cells[at_both + v * lean.stride];
                }
                if (size & 1) row[size] = 0;
            }
    };
    const std::size_t partners = chosen.size();
    for_each_task(static_cast<std::int64_t>(partners + made.triples.size()), threads, [&](std::int64_t i) {
        if (static_cast<std::size_t>(i) < partners) fill_partner(i);
        else fill_triple(static_cast<std::size_t>(i) - partners);
    });
    return made;
}

void Moves::redraw(const std::int64_t* values, int exponent, std::uint32_t* codes, std::size_t records,
                   std::uint32_t attribute, const Weighing& weighing, const std::uint64_t* words,
                   int threads) const {
    if (!records) return;
    const auto* const cells = reinterpret_cast<const Wrapping*>(values);
    const Tables tables = make_tables(cells, codes, records, attribute, threads);
    const std::size_t width = sizes_.size(), stride = tables.stride;
    const std::size_t tile = std::clamp<std::size_t>(tile_scores / stride, 1, block);
    for_each_task(static_cast<std::int64_t>((records + block - 1) / block), threads, [&](std::int64_t b) {
        const std::size_t first = static_cast<std::size_t>(b) * block, last = std::min(records, first + block);
        std::vector<std::uint32_t> uncommon(tables.partners.size() + 1);
        std::vector<const Wrapping*> rows(tables.most_rows() + 1);
        std::vector<Wrapping> scores(tile * stride);
        Draws draws(exponent, stride, tile);
        for (std::size_t from = first; from < last; from += tile) {
            const std::size_t count = std::min(tile, last - from);
            for (std::size_t r = 0; r < count; ++r) {
                const std::uint32_t* const record = codes + (from + r) * width;
                const std::size_t found = tables.find_rows(record, uncommon.data(), rows.data());
                add_rows({rows.data(), found}, stride, scores.data() + r * stride);
                tables.add_in_place(record, cells, weighing.base.size(), scores.data() + r * stride);
            }
            draws.draw(scores.data(), weighing, words, from, count, width, codes + from * width + attribute);
        }
    });
}

void Moves::potentials(const std::int64_t* values, int exponent, const std::uint32_t* codes,
                       std::size_t records, int threads, double* potentials) const {
    const auto* const cells = reinterpret_cast<const Wrapping*>(values);
    const PowerOfTwo power(exponent);
    for_each_task(static_cast<std::int64_t>((records + block - 1) / block), threads, [&](std::int64_t b) {
        const std::size_t first = static_cast<std::size_t>(b) * block, last = std::min(records, first + block);
        for (std::size_t r = first; r < last; ++r) {
            const std::uint32_t* const record = codes + r * sizes_.size();
            Wrapping sum = 0;
            for (const Marginal& marginal : marginals_) {
                std::size_t at = marginal.start;
                for (std::uint32_t i = 0; i < marginal.order; ++i)
                    at += record[marginal.attributes[i]] * marginal.strides[i];
                sum += cells[at];
            }
            potentials[r] = power * to_double(sum);
        }
    });
}

}  // namespace privmw
