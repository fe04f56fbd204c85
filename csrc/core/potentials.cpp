// The potentials of rows: what a value for each cell of the workload makes for each row.
//
// The plan's way of summing, backwards. Where the plan derives a marginal's common slab from a parent, its
// values there are added to the parent's and taken off all its slabs: then only rows whose rarest attribute
// is uncommon have something to add. Pairs lean in the same way on their commoner attribute, where that saves
// more than it costs.
#include <algorithm>
#include <numeric>

#include "core/marginals.hpp"
#include "core/parallel.hpp"

namespace privmw {

namespace {

constexpr std::size_t block = 16384;  // rows: their potentials stay in L2 while marginal after marginal adds

// Takes the common slab off every slab of `cells`, adding it to the parent.
void take_common(const Slabs& shape, std::uint32_t common, double* cells, double* parent) {
    const std::size_t slab = shape.size * shape.after;
    for (std::size_t i = 0; i < shape.before; ++i, cells += slab, parent += shape.after)
        for (std::size_t k = 0; k < shape.after; ++k) {
            const double taken = cells[common * shape.after + k];
            parent[k] += taken;
            for (std::size_t v = 0; v < shape.size; ++v) cells[v * shape.after + k] -= taken;
        }
}

// Rows of [first, last) whose code is not the common one.
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

struct Marginals::Leaning {
    std::vector<double> cells;                      // of all the plan's marginals, and of single attributes
    std::vector<std::size_t> starts;                // where a marginal's cells begin
    std::vector<std::size_t> starts_of_singles;     // where an attribute's do
    std::vector<std::uint32_t> singles;             // attributes that pairs lean on
    std::vector<std::size_t> whole;                 // marginals that every row adds
    std::vector<std::vector<std::size_t>> leaning;  // by rarest attribute: marginals of its uncommon rows
};

Marginals::Leaning Marginals::lean(const double* values) const {
    Leaning made;
    const std::size_t attributes = columns_.attributes();
    std::size_t cells = 0;
    for (const PlannedMarginal& marginal : plan_.marginals) {
        made.starts.push_back(cells);
        cells += marginal.cells;
    }
    // A pair that leans saves the rows of its rarer attribute's common value; a single attribute costs all.
    double saved = 0;
    std::vector<bool> leant_on(attributes);
    const auto commoner = [](const PlannedMarginal& pair) { return pair.attributes[1 - pair.axis]; };
    for (const PlannedMarginal& marginal : plan_.marginals)
        if (marginal.attributes.size() == 2) {
            saved += static_cast<double>(columns_.rows() -
                                         columns_.uncommon_rows(marginal.attributes[marginal.axis]));
            leant_on[commoner(marginal)] = true;
        }
    const auto singles = std::count(leant_on.begin(), leant_on.end(), true);
    const bool pairs_lean = saved > static_cast<double>(singles) * static_cast<double>(columns_.rows());
    made.starts_of_singles.resize(attributes);
    for (std::uint32_t a = 0; pairs_lean && a < attributes; ++a)
        if (leant_on[a]) {
            made.singles.push_back(a);
            made.starts_of_singles[a] = cells;
            cells += columns_.column(a).size;
        }
    made.cells.resize(cells);
    std::copy_n(values, plan_.cells, made.cells.begin());  // the caller's marginals are the plan's first

    // Larger marginals first: a parent is complete before it leans itself.
    std::vector<std::size_t> order(plan_.marginals.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return plan_.marginals[a].attributes.size() > plan_.marginals[b].attributes.size();
    });
    made.leaning.resize(attributes);
    for (std::size_t at : order) {
        const PlannedMarginal& marginal = plan_.marginals[at];
        double* parent = nullptr;
        if (marginal.attributes.size() == 2 && pairs_lean)
            parent = made.cells.data() + made.starts_of_singles[commoner(marginal)];
        else if (marginal.way != Way::tiles && marginal.parent >= 0)
            parent = made.cells.data() + made.starts[marginal.parent];
        if (!parent) {
            made.whole.push_back(at);
            continue;
        }
        const std::uint32_t rarest = marginal.attributes[marginal.axis];
        take_common(slabs(columns_, marginal), columns_.common(rarest), made.cells.data() + made.starts[at],
                    parent);
        made.leaning[rarest].push_back(at);
    }
    return made;
}

void Marginals::add_uncommon(const Leaning& leaning, std::uint32_t attribute, std::size_t first,
                             std::size_t last, double* potentials) const {
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
    std::vector<double> added(rows.size());
    for (std::size_t at : leaning.leaning[attribute]) {
        columns.clear();
        for (std::uint32_t a : plan_.marginals[at].attributes) columns.push_back(find(a));
        add_values(columns, plan_.marginals[at].cells, leaning.cells.data() + leaning.starts[at], 0,
                   rows.size(), added.data());
    }
    for (std::size_t i = 0; i < rows.size(); ++i) potentials[rows[i]] += added[i];
}

void Marginals::potentials(const double* values, int threads, double* potentials) const {
    const Leaning leaning = lean(values);
    const std::size_t rows = columns_.rows();
    for_each_task(static_cast<std::int64_t>((rows + block - 1) / block), threads, [&](std::int64_t b) {
        const std::size_t first = static_cast<std::size_t>(b) * block, last = std::min(rows, first + block);
        std::fill(potentials + first, potentials + last, 0.0);
        std::vector<Column> columns;
        for (std::size_t at : leaning.whole) {
            columns.clear();
            for (std::uint32_t a : plan_.marginals[at].attributes) columns.push_back(columns_.column(a));
            add_values(columns, plan_.marginals[at].cells, leaning.cells.data() + leaning.starts[at], first,
                       last, potentials);
        }
        for (std::uint32_t a : leaning.singles)
            add_values({columns_.column(a)}, columns_.column(a).size,
                       leaning.cells.data() + leaning.starts_of_singles[a], first, last, potentials);
        for (std::uint32_t a = 0; a < columns_.attributes(); ++a)
            if (!leaning.leaning[a].empty()) add_uncommon(leaning, a, first, last, potentials);
    });
}

}  // namespace privmw
