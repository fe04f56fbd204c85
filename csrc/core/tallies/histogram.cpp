// Tallies over a full histogram, level by level: of the prefixes of its axes, each of one or more attributes.
// A marginal is added where its last axis ends, so a cell of the histogram meets only those that have the
// last.
#include <algorithm>
#include <map>
#include <mutex>

#include "core/tallies/tallies.hpp"

namespace privmw {

namespace {

constexpr std::size_t least_axis = 8;                     // values: axes of few would make runs too short
constexpr std::size_t most_pairs = std::size_t{1} << 24;  // cells of the unions of pairs: 128 MB

struct Axis {
    std::size_t first = 0, end = 0;      // attributes
    std::size_t size = 1, prefixes = 1;  // its values; those of all axes before it
    std::vector<std::size_t> marginals;  // that end in it
    std::vector<std::uint32_t> bases;    // prefixes x marginals: the first cell of each
    std::vector<std::uint32_t> steps;    // marginals x size: how far behind it; nothing if 0, 1, 2, ...
    std::vector<std::uint8_t> whole;     // per marginal: whether it has nothing
};

class Histogram : public Tallies {
  public:
    Histogram(Margins margins, std::size_t rows, std::span<const std::int32_t> groups,
              std::span<const std::uint8_t> marked);
    bool has_gram() const override;
    std::size_t bytes() const override;

  protected:
    void cell_sums(const double* weights, double* sums) const override;
    void cell_potentials(const double* values, double* potentials) const override;
    void cell_gram(const double* weights, double* matrix) const override;
    void codes_of(std::size_t row, std::uint32_t* codes) const override;

  private:
    // What two marginals have in common is the marginal of both their attributes.
    struct Pair {
        std::size_t first_cell;           // of the union
        std::vector<std::uint32_t> a, b;  // per cell of the union: the cells of both
    };
    struct Unions {
        std::unique_ptr<Histogram> tallies;
        std::vector<Pair> pairs;
    };
    const Unions& unions() const;  // built at the first call; safe from several threads

    void make_axes();
    void fill(Axis& axis) const;

    std::vector<Axis> axes_;
    std::vector<std::size_t> totals_;  // marginals without attributes
    mutable std::mutex unions_mutex_;
    mutable Unions unions_;
};

Histogram::Histogram(Margins margins, std::size_t rows, std::span<const std::int32_t> groups,
                     std::span<const std::uint8_t> marked)
    : Tallies(std::move(margins), rows, groups, marked) {
    make_axes();
    for (std::size_t j = 0; j < this->margins().size(); ++j) {
        const auto of = this->margins()[j];
        if (of.empty()) {
            totals_.push_back(j);
            continue;
        }
        for (Axis& axis : axes_)
            if (static_cast<std::size_t>(of.back()) >= axis.first &&
                static_cast<std::size_t>(of.back()) < axis.end)
                axis.marginals.push_back(j);
    }
    for (Axis& axis : axes_) fill(axis);
}

void Histogram::make_axes() {
    const auto& sizes = margins().sizes;
    std::size_t end = sizes.size();
    while (end > 0) {
        Axis axis;
        axis.end = end;
        while (end > 0 && axis.size < least_axis) axis.size *= sizes[--end];
        axis.first = end;
        axes_.push_back(axis);
    }
    std::reverse(axes_.begin(), axes_.end());
    for (std::size_t i = 1; i < axes_.size(); ++i)
        axes_[i].prefixes = axes_[i - 1].prefixes * axes_[i - 1].size;
}

// The cell of a marginal that codes from attribute `first` to `end` add, where those are numbered in C order.
std::vector<std::uint32_t> parts(const Margins& margins, std::size_t j, std::size_t first, std::size_t end) {
    std::vector<std::uint32_t> found{0};
    const auto of = margins[j];
    std::size_t stride = margins.cells(j), i = 0;
    while (i < of.size() && static_cast<std::size_t>(of[i]) < first) stride /= margins.sizes[of[i++]];
    for (std::size_t a = first; a < end; ++a) {
        const bool has = i < of.size() && static_cast<std::size_t>(of[i]) == a;
        if (has) stride /= margins.sizes[of[i++]];
        std::vector<std::uint32_t> longer;
        longer.reserve(found.size() * margins.sizes[a]);
        for (std::uint32_t part : found)
            for (std::uint32_t v = 0; v < margins.sizes[a]; ++v)
                longer.push_back(part + (has ? static_cast<std::uint32_t>(v * stride) : 0));
        found = std::move(longer);
    }
    return found;
}

void Histogram::fill(Axis& axis) const {
    const std::size_t many = axis.marginals.size();
    axis.bases.resize(axis.prefixes * many);
    for (std::size_t m = 0; m < many; ++m) {
        const std::size_t j = axis.marginals[m];
        const auto before = parts(margins(), j, 0, axis.first);
        const auto inside = parts(margins(), j, axis.first, axis.end);
        for (std::size_t p = 0; p < axis.prefixes; ++p)
            axis.bases[p * many + m] = static_cast<std::uint32_t>(offsets()[j]) + before[p];
        axis.steps.insert(axis.steps.end(), inside.begin(), inside.end());
        bool whole = true;
        for (std::size_t v = 0; v < axis.size; ++v) whole = whole && inside[v] == v;
        axis.whole.push_back(whole);
    }
}

void Histogram::cell_sums(const double* weights, double* sums) const {
    std::fill_n(sums, cells(), 0.0);
    std::vector<double> level, above;
    const double* now = weights;
    for (std::size_t i = axes_.size(); i-- > 0;) {
        const Axis& axis = axes_[i];
        const std::size_t many = axis.marginals.size();
        above.resize(axis.prefixes);
        for (std::size_t p = 0; p < axis.prefixes; ++p) {
            const double* const run = now + p * axis.size;
            for (std::size_t m = 0; m < many; ++m) {
                double* const out = sums + axis.bases[p * many + m];
                const std::uint32_t* const steps = axis.steps.data() + m * axis.size;
                if (axis.whole[m])
                    for (std::size_t v = 0; v < axis.size; ++v) out[v] += run[v];
                else
                    for (std::size_t v = 0; v < axis.size; ++v) out[steps[v]] += run[v];
            }
            double sum = 0;
            for (std::size_t v = 0; v < axis.size; ++v) sum += run[v];
            above[p] = sum;
        }
        level.swap(above);
        now = level.data();
    }
    for (std::size_t j : totals_) sums[offsets()[j]] = now[0];
}

void Histogram::cell_potentials(const double* values, double* potentials) const {
    std::vector<double> level(1, 0.0), below;
    for (std::size_t j : totals_) level[0] += values[offsets()[j]];
    for (std::size_t i = 0; i < axes_.size(); ++i) {
        const Axis& axis = axes_[i];
        const std::size_t many = axis.marginals.size();
        const bool last = i + 1 == axes_.size();
        if (!last) below.resize(axis.prefixes * axis.size);
        double* const next = last ? potentials : below.data();
        for (std::size_t p = 0; p < axis.prefixes; ++p) {
            double* const run = next + p * axis.size;
            std::fill_n(run, axis.size, level[p]);
            for (std::size_t m = 0; m < many; ++m) {
                const double* const in = values + axis.bases[p * many + m];
                const std::uint32_t* const steps = axis.steps.data() + m * axis.size;
                if (axis.whole[m])
                    for (std::size_t v = 0; v < axis.size; ++v) run[v] += in[v];
                else
                    for (std::size_t v = 0; v < axis.size; ++v) run[v] += in[steps[v]];
            }
        }
        if (!last) level.swap(below);
    }
}

bool Histogram::has_gram() const {
    if (count() > most_unknowns) return false;
    std::size_t pairs = 0;
    for (std::size_t a = 0; a < margins().size(); ++a)
        for (std::size_t b = 0; b <= a; ++b) {
            std::vector<std::int32_t> both;
            std::ranges::set_union(margins()[a], margins()[b], std::back_inserter(both));
            std::size_t cells = 1;
            for (std::int32_t attribute : both) cells *= margins().sizes[attribute];
            pairs += cells;
        }
    return pairs <= most_pairs;
}

const Histogram::Unions& Histogram::unions() const {
    std::lock_guard lock(unions_mutex_);
    if (unions_.tallies) return unions_;
    Unions built;
    Margins list{margins().sizes, {}, {0}};
    std::map<std::vector<std::int32_t>, std::size_t> number;
    std::vector<std::size_t> which;
    for (std::size_t a = 0; a < margins().size(); ++a)
        for (std::size_t b = 0; b <= a; ++b) {
            std::vector<std::int32_t> both;
            std::ranges::set_union(margins()[a], margins()[b], std::back_inserter(both));
            const auto [at, fresh] = number.try_emplace(both, number.size());
            which.push_back(at->second);
            if (fresh) {
                list.attributes.insert(list.attributes.end(), both.begin(), both.end());
                list.starts.push_back(static_cast<std::int64_t>(list.attributes.size()));
            }
            // Within the union's own attributes, numbered 0, 1, ..., both marginals are marginals again.
            Margins inside{{}, {}, {0}};
            for (std::int32_t attribute : both) inside.sizes.push_back(margins().sizes[attribute]);
            for (std::size_t j : {a, b}) {
                for (std::int32_t attribute : margins()[j])
                    inside.attributes.push_back(
                        static_cast<std::int32_t>(std::ranges::lower_bound(both, attribute) - both.begin()));
                inside.starts.push_back(static_cast<std::int64_t>(inside.attributes.size()));
            }
            Pair pair{0, parts(inside, 0, 0, both.size()), parts(inside, 1, 0, both.size())};
            for (auto& cell : pair.a) cell += static_cast<std::uint32_t>(offsets()[a]);
            for (auto& cell : pair.b) cell += static_cast<std::uint32_t>(offsets()[b]);
            built.pairs.push_back(std::move(pair));
        }
    built.tallies = std::make_unique<Histogram>(std::move(list), rows(), std::span<const std::int32_t>{},
                                                std::span<const std::uint8_t>{});
    for (std::size_t i = 0; i < which.size(); ++i)
        built.pairs[i].first_cell = built.tallies->offsets()[which[i]];
    unions_ = std::move(built);
    return unions_;
}

void Histogram::cell_gram(const double* weights, double* matrix) const {
    const Unions& unions = this->unions();
    std::vector<double> sums(unions.tallies->cells());
    unions.tallies->cell_sums(weights, sums.data());
    for (std::size_t i = 0; i < cells(); ++i) std::fill_n(matrix + i * count(), cells(), 0.0);
    for (const Pair& pair : unions.pairs)
        for (std::size_t c = 0; c < pair.a.size(); ++c) {
            const double sum = sums[pair.first_cell + c];
            matrix[pair.a[c] * count() + pair.b[c]] += sum;
        }
    // Of two marginals only the later one's rows were added to.
    for (std::size_t i = 0; i < cells(); ++i)
        for (std::size_t j = 0; j < i; ++j) matrix[j * count() + i] = matrix[i * count() + j];
}

void Histogram::codes_of(std::size_t row, std::uint32_t* codes) const {
    const auto& sizes = margins().sizes;
    for (std::size_t a = sizes.size(); a-- > 0;) {
        codes[a] = static_cast<std::uint32_t>(row % sizes[a]);
        row /= sizes[a];
    }
}

std::size_t Histogram::bytes() const {
    std::size_t held = 0;
    for (const Axis& axis : axes_) held += 4 * (axis.bases.size() + axis.steps.size());
    std::lock_guard lock(unions_mutex_);
    for (const Pair& pair : unions_.pairs) held += 8 * pair.a.size();
    return held + (unions_.tallies ? unions_.tallies->bytes() : 0);
}

}  // namespace

std::unique_ptr<Tallies> tallies_of_histogram(Margins margins, std::span<const std::int32_t> groups,
                                              std::span<const std::uint8_t> marked) {
    std::size_t rows = 1;
    for (std::uint32_t size : margins.sizes) rows *= size;
    return std::make_unique<Histogram>(std::move(margins), rows, groups, marked);
}

}  // namespace privmw
