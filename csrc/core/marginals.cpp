#include "core/marginals.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "core/lists.hpp"
#include "core/parallel.hpp"
#include "core/tiles.hpp"

namespace privmw {

namespace {

// Columns gathered once for way `rare` are kept while they fit in here; beyond it they are gathered at every
// evaluation.
constexpr std::size_t most_rare_bytes = std::size_t{256} << 20;

// The marginal's cells seen around one axis: before x size x after.
struct Slabs {
    std::size_t before = 1, size = 1, after = 1;
};

Slabs slabs(const Columns& columns, const PlannedMarginal& marginal) {
    Slabs shape;
    for (std::size_t i = 0; i < marginal.attributes.size(); ++i) {
        const std::size_t size = columns.column(marginal.attributes[i]).size;
        if (static_cast<int>(i) == marginal.axis)
            shape.size = size;
        else
            (static_cast<int>(i) < marginal.axis ? shape.before : shape.after) *= size;
    }
    return shape;
}

template <bool add>
void put(Mass& cell, Mass mass) {
    cell = add ? cell + mass : mass;
}

}  // namespace

struct Marginals::Evaluation {
    const Columns& columns;
    const Mass* masses;
    bool whole;  // columns are the plan's own, not a taken part
    bool add;
    Mass* sums;
    mutable std::vector<Mass> kept;
    mutable std::mutex merging;

    // Where a marginal is written, and whether what stands there stays.
    std::pair<Mass*, bool> target(const PlannedMarginal& marginal) const {
        if (marginal.kept >= 0) return {kept.data() + marginal.kept, false};
        return {sums + marginal.sums, add};
    }
    const Mass* parent(const Plan& plan, const PlannedMarginal& marginal) const {
        return kept.data() + plan.marginals[marginal.parent].kept;
    }
};

std::size_t Marginals::RareRows::bytes() const {
    std::size_t total = rows.size() * sizeof(Row);
    for (const auto& [attribute, owned] : columns) total += owned.storage.size() * 4;
    return total;
}

Marginals::Marginals(const Columns& columns, const MarginalList& workload, int threads)
    : columns_(columns), plan_(make_plan(columns, workload)) {
    if (plan_.uses_lists) columns_.uncommon_ids();
    listed_.resize(plan_.uses_lists ? plan_.marginals.size() : 0);
    for (std::size_t at = 0; at < listed_.size(); ++at)
        if (plan_.marginals[at].way == Way::lists && plan_.marginals[at].attributes.size() > 1)
            listed_[at] = listed_pair(plan_.marginals[at]);
    std::map<std::uint32_t, std::vector<const PlannedTask*>> tasks;
    for (const auto& stage : plan_.stages)
        for (const auto& task : stage)
            if (task.way == Way::rare) tasks[task.rarest].push_back(&task);
    std::vector<std::uint32_t> attributes;
    for (const auto& [attribute, members] : tasks) attributes.push_back(attribute);
    // Rarest first: the most marginals saved a byte.
    std::sort(attributes.begin(), attributes.end(),
              [&](auto a, auto b) { return columns_.rank(a) < columns_.rank(b); });
    std::atomic<std::size_t> bytes{0};
    std::mutex mutex;
    for_each_task(static_cast<std::int64_t>(attributes.size()), threads, [&](std::int64_t i) {
        const auto& members = tasks[attributes[i]];
        std::size_t wanted = columns_.attributes();
        if (bytes + columns_.uncommon_rows(attributes[i]) * (4 + wanted) > most_rare_bytes) return;
        RareRows gathered;
        gathered.rows = columns_.rows_with_uncommon(attributes[i]);
        for (const auto* task : members) gathered = gather_rare_rows(columns_, *task, std::move(gathered));
        bytes += gathered.bytes();
        std::lock_guard lock(mutex);
        rare_rows_.emplace(attributes[i], std::move(gathered));
    });
}

std::size_t Marginals::bytes() const {
    std::size_t total = plan_.kept_cells * sizeof(Mass);
    for (const auto& [attribute, rare] : rare_rows_) total += rare.bytes();
    total += listed_.size() * sizeof(ListedPair);
    for (const auto& marginal : plan_.marginals)
        total += sizeof marginal + marginal.attributes.capacity() * 4;
    return total;
}

Marginals::RareRows Marginals::gather_rare_rows(const Columns& columns, const PlannedTask& task,
                                                RareRows gathered) const {
    for (std::size_t at : task.marginals)
        for (std::uint32_t attribute : plan_.marginals[at].attributes)
            if (!gathered.columns.contains(attribute))
                gathered.columns.emplace(
                    attribute, gather(columns.column(attribute), gathered.rows.data(), gathered.rows.size()));
    return gathered;
}

void Marginals::run_tiles(const Evaluation& evaluation, const PlannedTask& task) const {
    std::vector<TiledMarginal> tiled;
    for (std::size_t at : task.marginals) {
        const PlannedMarginal& marginal = plan_.marginals[at];
        tiled.push_back({{}, marginal.cells, evaluation.target(marginal).first});
        for (std::uint32_t a : marginal.attributes)
            tiled.back().columns.push_back(evaluation.columns.column(a));
    }
    const std::size_t rows = evaluation.columns.rows();
    const std::size_t first = rows * task.part / task.parts, last = rows * (task.part + 1) / task.parts;
    if (task.parts == 1) return add_tiles(tiled, evaluation.masses, first, last);
    // Other threads add other rows to the same cells.
    std::vector<std::vector<Mass>> own;
    for (auto& marginal : tiled) {
        own.emplace_back(marginal.cells);
        marginal.sums = own.back().data();
    }
    add_tiles(tiled, evaluation.masses, first, last);
    std::lock_guard lock(evaluation.merging);
    for (std::size_t i = 0; i < tiled.size(); ++i) {
        Mass* target = evaluation.target(plan_.marginals[task.marginals[i]]).first;
        for (std::size_t c = 0; c < own[i].size(); ++c) target[c] += own[i][c];
    }
}

namespace {

// The cells of the uncommon values stand in `uncommon`; the common one is what they leave of the parent.
template <bool add>
void close_axis(const Slabs& shape, std::uint32_t common, const Mass* uncommon, const Mass* parent,
                Mass* cells) {
    const std::size_t slab = shape.size * shape.after;
    for (std::size_t i = 0; i < shape.before; ++i, uncommon += slab, cells += slab, parent += shape.after)
        for (std::size_t k = 0; k < shape.after; ++k) {
            Mass rest = parent[k];
            for (std::size_t v = 0; v < shape.size; ++v) {
                if (v == common) continue;
                const Mass mass = uncommon[v * shape.after + k];
                rest -= mass;
                put<add>(cells[v * shape.after + k], mass);
            }
            put<add>(cells[common * shape.after + k], rest);
        }
}

}  // namespace

void Marginals::run_rare(const Evaluation& evaluation, const PlannedTask& task) const {
    RareRows own;
    const RareRows* rare = nullptr;
    const auto found = rare_rows_.find(task.rarest);
    if (evaluation.whole && found != rare_rows_.end()) {
        rare = &found->second;
    } else {
        own.rows = evaluation.columns.rows_with_uncommon(task.rarest);
        own = gather_rare_rows(evaluation.columns, task, std::move(own));
        rare = &own;
    }
    std::vector<Mass> masses(rare->rows.size());
    for (std::size_t i = 0; i < masses.size(); ++i) masses[i] = evaluation.masses[rare->rows[i]];

    std::size_t cells = 0;
    for (std::size_t at : task.marginals) cells += plan_.marginals[at].cells;
    std::vector<Mass> uncommon(cells);
    std::vector<TiledMarginal> tiled;
    cells = 0;
    for (std::size_t at : task.marginals) {
        const PlannedMarginal& marginal = plan_.marginals[at];
        tiled.push_back({{}, marginal.cells, uncommon.data() + cells});
        cells += marginal.cells;
        for (std::uint32_t a : marginal.attributes)
            tiled.back().columns.push_back(rare->columns.at(a).column);
    }
    add_tiles(tiled, masses.data(), 0, masses.size());
    for (std::size_t i = 0; i < tiled.size(); ++i) {
        const PlannedMarginal& marginal = plan_.marginals[task.marginals[i]];
        const auto [target, add] = evaluation.target(marginal);
        const auto close = add ? close_axis<true> : close_axis<false>;
        close(slabs(columns_, marginal), columns_.common(task.rarest), tiled[i].sums,
              evaluation.parent(plan_, marginal), target);
    }
}

namespace {

ListedAxis listed_axis(const Columns& columns, const PlannedMarginal& marginal, std::size_t axis) {
    ListedAxis listed;
    const std::uint32_t attribute = marginal.attributes[axis];
    listed.first_id = columns.layout().first[columns.layout().position[attribute]];
    listed.size = columns.column(attribute).size;
    listed.common = columns.common(attribute);
    for (std::size_t i = axis + 1; i < marginal.attributes.size(); ++i) {
        const std::size_t size = columns.column(marginal.attributes[i]).size;
        listed.stride *= size;
        if (static_cast<int>(i) != marginal.axis) listed.parent_stride *= size;
    }
    return listed;
}

}  // namespace

// The axes other than the rarest (or all, for a pair), smaller ids first.
Marginals::ListedPair Marginals::listed_pair(const PlannedMarginal& marginal) const {
    ListedPair pair;
    bool first = true;
    for (std::size_t i = 0; i < marginal.attributes.size(); ++i) {
        if (marginal.attributes.size() == 3 && static_cast<int>(i) == marginal.axis) continue;
        (first ? pair.b : pair.c) = listed_axis(columns_, marginal, i);
        first = false;
    }
    if (pair.b.first_id > pair.c.first_id) std::swap(pair.b, pair.c);
    pair.rarest_stride = slabs(columns_, marginal).after;
    return pair;
}

void Marginals::run_lists_of_pairs(const Evaluation& evaluation, const PlannedTask& task) const {
    const IdLayout& layout = columns_.layout();
    const UncommonIds& ids = evaluation.columns.uncommon_ids();
    IdPairSums sums(layout, layout.first[task.first_second], layout.first[task.last_second]);
    sums.add_all_rows(ids, evaluation.columns.rows(), evaluation.masses);
    for (std::size_t at : task.marginals) {
        const PlannedMarginal& marginal = plan_.marginals[at];
        const auto [target, add] = evaluation.target(marginal);
        if (marginal.attributes.size() == 2) {
            expand_pair(sums, listed_[at].b, listed_[at].c, add, target);
            continue;
        }
        const ListedAxis axis = listed_axis(columns_, marginal, 0);
        Mass rest = sums.total();
        for (std::uint32_t i = 0; i + 1 < axis.size; ++i) {
            const Mass mass = sums.single(axis.first_id + i);
            Mass& cell = target[i + (i >= axis.common)];
            add ? put<true>(cell, mass) : put<false>(cell, mass);
            rest -= mass;
        }
        add ? put<true>(target[axis.common], rest) : put<false>(target[axis.common], rest);
    }
}

void Marginals::run_lists_of_triples(const Evaluation& evaluation, const PlannedTask& task) const {
    const IdLayout& layout = columns_.layout();
    const UncommonIds& ids = evaluation.columns.uncommon_ids();
    const std::uint32_t size = columns_.column(task.rarest).size, common = columns_.common(task.rarest);

    struct Written {
        const ListedPair* pair;
        Mass* target;
        bool add;
    };
    std::vector<Written> written;
    for (std::size_t at : task.marginals) {
        const auto [target, add] = evaluation.target(plan_.marginals[at]);
        written.push_back({&listed_[at], target, add});
    }
    IdPairSums sums(layout, layout.first[task.first_second], layout.first[task.last_second]);
    IdPairSums uncommon = sums;  // over all uncommon values
    const std::uint32_t first_id = layout.first[layout.position[task.rarest]];
    for (std::uint32_t i = 0; i + 1 < size; ++i) {
        sums.clear();
        sums.add_rows_with(first_id + i, ids, evaluation.masses);
        uncommon.add(sums);
        const std::size_t value = i + (i >= common);
        for (const auto& [pair, target, add] : written)
            expand_pair(sums, pair->b, pair->c, add, target + value * pair->rarest_stride);
    }
    for (std::size_t k = 0; k < written.size(); ++k) {
        const auto& [pair, target, add] = written[k];
        expand_pair(uncommon, pair->b, pair->c, add, target + common * pair->rarest_stride,
                    evaluation.parent(plan_, plan_.marginals[task.marginals[k]]));
    }
}

void Marginals::evaluate(const Columns& columns, const Mass* masses, bool add, int threads,
                         Mass* sums) const {
    Evaluation evaluation{columns, masses, &columns == &columns_, add, sums, {}, {}};
    evaluation.kept.resize(plan_.kept_cells);
    for (std::size_t stage = 0; stage < plan_.stages.size(); ++stage) {
        const auto& tasks = plan_.stages[stage];
        for (const auto& task : tasks)
            if (task.way == Way::tiles && task.part == 0)
                for (std::size_t at : task.marginals) {
                    const auto [target, keeps] = evaluation.target(plan_.marginals[at]);
                    if (!keeps) std::fill_n(target, plan_.marginals[at].cells, 0);
                }
        for_each_task(static_cast<std::int64_t>(tasks.size()), threads, [&](std::int64_t i) {
            const PlannedTask& task = tasks[i];
            if (task.way == Way::tiles)
                run_tiles(evaluation, task);
            else if (task.way == Way::rare)
                run_rare(evaluation, task);
            else if (stage == 0)
                run_lists_of_pairs(evaluation, task);
            else
                run_lists_of_triples(evaluation, task);
        });
    }
    for (std::size_t at = 0; at < plan_.requested; ++at) {
        const PlannedMarginal& marginal = plan_.marginals[at];
        if (marginal.kept < 0) continue;
        const Mass* from = evaluation.kept.data() + marginal.kept;
        for (std::size_t c = 0; c < marginal.cells; ++c)
            sums[marginal.sums + c] = (add ? sums[marginal.sums + c] : 0) + from[c];
    }
}

void Marginals::add_by_tiles(const Columns& columns, const Mass* masses, int threads, Mass* sums) const {
    constexpr std::size_t chunk = 256;
    const auto tasks = static_cast<std::int64_t>((plan_.requested + chunk - 1) / chunk);
    for_each_task(tasks, threads, [&](std::int64_t i) {
        TiledMarginal tiled;
        for (std::size_t at = i * chunk; at < std::min(plan_.requested, (i + 1) * chunk); ++at) {
            const PlannedMarginal& marginal = plan_.marginals[at];
            tiled.columns.clear();
            for (std::uint32_t a : marginal.attributes) tiled.columns.push_back(columns.column(a));
            tiled.cells = marginal.cells;
            tiled.sums = sums + marginal.sums;
            add_tiles({&tiled, 1}, masses, 0, columns.rows());
        }
    });
}

void Marginals::sum(const Mass* masses, int threads, Mass* sums) const {
    evaluate(columns_, masses, false, threads, sums);
}

void Marginals::add_changes(std::span<const Row> rows, const Mass* changes, int threads, Mass* sums) const {
    if (rows.empty()) return;
    const auto taken = columns_.take(rows);
    const double share = static_cast<double>(rows.size()) / static_cast<double>(columns_.rows());
    const double planned = plan_.cost_of_cells + share * (plan_.cost - plan_.cost_of_cells);
    // A handful of rows: going through them marginal by marginal costs less than visiting every cell.
    const double by_tiles =
        (static_cast<double>(rows.size()) * 2 + 50) * static_cast<double>(plan_.requested);
    if (by_tiles < planned)
        add_by_tiles(*taken, changes, threads, sums);
    else
        evaluate(*taken, changes, true, threads, sums);
}

}  // namespace privmw
