// The potentials of rows: for each row the sum of the values of its cells.
//
// The adjoint of the plan's summation. Where the plan derives a marginal's common slab from a parent, its
// values there are added to the parent's and subtracted from all its slabs: then only rows whose rarest
// attribute is uncommon have something to add. Marginals of a joint are added to the joint's cells, and a row
// adds one value for all of them. Marginals that the plan evaluates by lists are treated like the others,
// with single attributes as the parents of pairs. Integers are added modulo 2^64, so sums stay exact.
#include <algorithm>
#include <numeric>

#include "core/marginals/marginals.hpp"
#include "core/parallel.hpp"
#include "core/power_of_two.hpp"

namespace privmw {

namespace {

constexpr std::size_t potentials_block = 16384;  // rows, whose sums stay in L2

// Subtracts the common slab from every slab of `cells`, and adds it to the parent.
void take_common(const Slabs& shape, std::uint32_t common, Wrapping* cells, Wrapping* parent) {
    const std::size_t slab = shape.size * shape.after;
    for (std::size_t i = 0; i < shape.before; ++i, cells += slab, parent += shape.after)
        for (std::size_t k = 0; k < shape.after; ++k) {
            const Wrapping taken = cells[common * shape.after + k];
            parent[k] += taken;
            for (std::size_t v = 0; v < shape.size; ++v) cells[v * shape.after + k] -= taken;
        }
}

// Adds each cell of a marginal to the cells of a joint within it. keeps: bit i, whether the marginal has
// attribute i of the joint; sizes: of the joint's attributes.
void spread(const Wrapping* cells, std::uint32_t keeps, std::span<const std::size_t> sizes, Wrapping* joint) {
    const std::size_t last = sizes.size() - 1;
    std::size_t strides[32] = {}, digits[32] = {}, stride = 1, at = 0;
    for (std::size_t i = sizes.size(); i-- > 0;)
        if (keeps >> i & 1) {
            strides[i] = stride;
            stride *= sizes[i];
        }
    while (true) {
        for (std::size_t v = 0; v < sizes[last]; ++v) *joint++ += cells[at + v * strides[last]];
        std::size_t i = last;
        while (i > 0 && digits[i - 1] + 1 == sizes[i - 1]) {
            --i;
            at -= digits[i] * strides[i];
            digits[i] = 0;
        }
        if (i == 0) return;
        ++digits[i - 1];
        at += strides[i - 1];
    }
}

// The rows of [first, last) with an uncommon code.
std::vector<Row> uncommon_rows(const Column& column, std::uint32_t common, std::size_t first,
                               std::size_t last) {
    std::vector<Row> found(last - first);
    std::size_t n = 0;
    with_codes(column, [&](const auto* codes) {
        for (std::size_t row = first; row < last; ++row) {
            found[n] = static_cast<Row>(row);
            n += codes[row] != common;
        }
    });
    found.resize(n);
    return found;
}

}  // namespace

// One call's values, made sparse.
struct Marginals::Leaning {
    // Adds to each row the value of its cell.
    struct Gather {
        std::vector<std::uint32_t> attributes;
        std::size_t cells, start;
    };
    std::vector<Wrapping>& values;
    std::vector<Gather> whole;                  // of every row
    std::vector<std::vector<Gather>> uncommon;  // by attribute: of the rows where it is uncommon
};

Marginals::Leaning Marginals::lean(const std::int64_t* values, std::vector<Wrapping>& storage) const {
    storage.clear();
    Leaning made{storage, {}, {}};
    made.uncommon.resize(columns_.attributes());
    const auto set_aside = [&](std::size_t cells) {
        made.values.resize(made.values.size() + cells);
        return made.values.size() - cells;
    };
    std::vector<std::size_t> starts, order(plan_.marginals.size());
    made.values.reserve(plan_.cells);
    for (const PlannedMarginal& marginal : plan_.marginals) starts.push_back(set_aside(marginal.cells));
    std::copy_n(values, plan_.cells, made.values.begin());  // the caller's marginals are the plan's first
    // The parents of pairs of the lists. Made on demand: other attributes may have many more values.
    std::map<std::uint32_t, std::size_t> singles;
    const auto single = [&](std::uint32_t a) {
        const auto [at, added] = singles.try_emplace(a);
        if (added) {
            at->second = set_aside(columns_.column(a).size);
            made.whole.push_back({{a}, columns_.column(a).size, at->second});
        }
        return at->second;
    };
    // Larger marginals first, so that a parent is complete before its own parent is used.
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return plan_.marginals[a].attributes.size() > plan_.marginals[b].attributes.size();
    });
    for (std::size_t at : order) {
        const PlannedMarginal& marginal = plan_.marginals[at];
        if (marginal.way == Way::tiles) continue;
        const std::uint32_t rarest = marginal.attributes[marginal.axis];
        const Leaning::Gather alone{marginal.attributes, marginal.cells, starts[at]};
        if (marginal.parent < 0 && marginal.attributes.size() == 1) {
            made.whole.push_back(alone);
            continue;
        }
        const std::size_t parent =
            marginal.parent < 0 ? single(marginal.attributes[1 - marginal.axis]) : starts[marginal.parent];
        take_common(slabs(columns_, marginal), columns_.common(rarest), made.values.data() + starts[at],
                    made.values.data() + parent);
        if (marginal.way == Way::lists) made.uncommon[rarest].push_back(alone);
    }
    for (const auto& stage : plan_.stages)
        for (const PlannedTask& task : stage) {
            if (task.part > 0) continue;  // the same joints over other rows
            for (const PlannedJoint& joint : task.joints) {
                Leaning::Gather gather{joint.attributes, 1, starts[joint.marginals[0]]};
                std::vector<std::size_t> sizes;
                for (std::uint32_t a : joint.attributes) sizes.push_back(columns_.column(a).size);
                for (std::size_t size : sizes) gather.cells *= size;
                if (joint.marginals.size() > 1) {
                    gather.start = set_aside(gather.cells);
                    for (std::size_t k = 0; k < joint.marginals.size(); ++k)
                        spread(made.values.data() + starts[joint.marginals[k]], joint.keeps[k], sizes,
                               made.values.data() + gather.start);
                }
                (task.way == Way::rare ? made.uncommon[task.rarest] : made.whole)
                    .push_back(std::move(gather));
            }
        }
    return made;
}

void Marginals::add_uncommon(const Leaning& leaning, std::uint32_t attribute, std::size_t first,
                             std::size_t last, Wrapping* sums) const {
    // The rows and their columns as way `rare` keeps them, or gathered here.
    std::vector<Row> own_rows;
    std::vector<OwnedColumn> own_columns;
    std::span<const Row> rows;
    std::size_t skipped = 0;
    const auto kept = rare_rows_.find(attribute);
    if (kept != rare_rows_.end()) {
        const auto& all = kept->second.rows;
        const auto begin = std::lower_bound(all.begin(), all.end(), first);
        rows = {begin, std::lower_bound(begin, all.end(), last)};
        skipped = static_cast<std::size_t>(begin - all.begin());
    } else {
        own_rows = uncommon_rows(columns_.column(attribute), columns_.common(attribute), first, last);
        rows = own_rows;
    }
    if (rows.empty()) return;
    std::vector<Column> found(columns_.attributes()), columns;
    const auto find = [&](std::uint32_t a) {
        if (found[a].codes) return found[a];
        if (kept != rare_rows_.end() && !kept->second.columns[a].storage.empty()) {
            found[a] = kept->second.columns[a].column;
            found[a].codes = static_cast<const std::uint8_t*>(found[a].codes) + skipped * found[a].width;
        } else {
            own_columns.push_back(gather(columns_.column(a), rows.data(), rows.size()));
            found[a] = own_columns.back().column;
        }
        return found[a];
    };
    std::vector<Wrapping> added(rows.size());
    for (const Leaning::Gather& gather : leaning.uncommon[attribute]) {
        columns.clear();
        for (std::uint32_t a : gather.attributes) columns.push_back(find(a));
        add_values(columns, gather.cells, leaning.values.data() + gather.start, 0, rows.size(), added.data());
    }
    for (std::size_t i = 0; i < rows.size(); ++i) sums[rows[i] - first] += added[i];
}

void Marginals::potentials(const std::int64_t* values, int exponent, int threads, double* potentials) const {
    // Kept between calls: fits make hundreds, and fresh pages cost more than writing to them.
    thread_local std::vector<Wrapping> storage;
    const Leaning leaning = lean(values, storage);
    const PowerOfTwo power(exponent);
    const std::size_t rows = columns_.rows();
    for_each_task(static_cast<std::int64_t>((rows + potentials_block - 1) / potentials_block), threads,
                  [&](std::int64_t b) {
                      const std::size_t first = static_cast<std::size_t>(b) * potentials_block,
                                        last = std::min(rows, first + potentials_block);
                      std::vector<Wrapping> sums(last - first);
                      std::vector<Column> columns;
                      for (const Leaning::Gather& gather : leaning.whole) {
                          columns.clear();
                          for (std::uint32_t a : gather.attributes) columns.push_back(columns_.column(a));
                          add_values(columns, gather.cells, leaning.values.data() + gather.start, first, last,
                                     sums.data());
                      }
                      for (std::uint32_t a = 0; a < columns_.attributes(); ++a)
                          if (!leaning.uncommon[a].empty())
                              add_uncommon(leaning, a, first, last, sums.data());
                      for (std::size_t i = 0; i < sums.size(); ++i)
                          potentials[first + i] = power * to_double(sums[i]);
                  });
}

}  // namespace privmw
