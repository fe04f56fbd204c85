#include "core/marginals.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "core/lists.hpp"
#include "core/parallel.hpp"
#include "core/tiles.hpp"

namespace privmw {

namespace {

// Columns gathered once for way `rare` are kept while they fit in here; beyond it they are gathered at every
// evaluation.
constexpr std::size_t most_rare_bytes = std::size_t{256} << 20;

// Sums by pairs of ids that one task holds at a time: 4 MB.
constexpr std::size_t most_pair_cells = std::size_t{1} << 19;

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
    template <class Marginal>
    std::pair<Mass*, bool> target(const Marginal& marginal) const {
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
    if (plan_.lists) columns_.uncommon_ids();
    listed_.resize(plan_.lists);
    for (const auto& stage : plan_.stages)
        for (const auto& task : stage)
            for (std::size_t at : task.marginals)
                listed_[task.list].push_back(list_marginal(plan_.marginals[at]));
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
    for (const auto& listed : listed_) total += listed.size() * sizeof(Listed);
    for (const auto& marginal : plan_.marginals)
        total += sizeof marginal + marginal.attributes.capacity() * 4;
    return total;
}

Marginals::RareRows Marginals::gather_rare_rows(const Columns& columns, const PlannedTask& task,
                                                RareRows gathered) const {
    for (const PlannedJoint& joint : task.joints)
        for (std::uint32_t attribute : joint.attributes)
            if (!gathered.columns.contains(attribute))
                gathered.columns.emplace(
                    attribute, gather(columns.column(attribute), gathered.rows.data(), gathered.rows.size()));
    return gathered;
}

// The joints of a task over some columns; where(marginal) says where each is to be added.
template <class Find, class Where>
std::vector<TiledJoint> Marginals::tiled_joints(const PlannedTask& task, Find&& column, Where&& where) const {
    std::vector<TiledJoint> joints;
    for (const PlannedJoint& planned : task.joints) {
        TiledJoint joint;
        for (std::uint32_t a : planned.attributes) {
            joint.columns.push_back(column(a));
            joint.cells *= joint.columns.back().size;
        }
        for (std::size_t at : planned.marginals) {
            TiledMarginal marginal{std::vector<bool>(planned.attributes.size()), where(at)};
            for (std::size_t i = 0; i < planned.attributes.size(); ++i)
                marginal.keeps[i] =
                    std::ranges::binary_search(plan_.marginals[at].attributes, planned.attributes[i]);
            joint.marginals.push_back(std::move(marginal));
        }
        joints.push_back(std::move(joint));
    }
    return joints;
}

// Cells set aside for every marginal of a task, one after the other.
std::vector<Mass> Marginals::scratch_cells(const PlannedTask& task,
                                           std::map<std::size_t, std::size_t>& starts) const {
    std::size_t cells = 0;
    for (const PlannedJoint& joint : task.joints)
        for (std::size_t at : joint.marginals) {
            starts[at] = cells;
            cells += plan_.marginals[at].cells;
        }
    return std::vector<Mass>(cells);
}

void Marginals::run_tiles(const Evaluation& evaluation, const PlannedTask& task) const {
    const std::size_t rows = evaluation.columns.rows();
    const std::size_t first = rows * task.part / task.parts, last = rows * (task.part + 1) / task.parts;
    const auto column = [&](std::uint32_t a) { return evaluation.columns.column(a); };
    const auto target = [&](std::size_t at) { return evaluation.target(plan_.marginals[at]).first; };
    if (task.parts == 1) return add_tiles(tiled_joints(task, column, target), evaluation.masses, first, last);
    // Other threads add other rows to the same cells.
    std::map<std::size_t, std::size_t> starts;
    std::vector<Mass> own = scratch_cells(task, starts);
    add_tiles(tiled_joints(task, column, [&](std::size_t at) { return own.data() + starts[at]; }),
              evaluation.masses, first, last);
    std::lock_guard lock(evaluation.merging);
    for (const auto& [at, start] : starts)
        for (std::size_t c = 0; c < plan_.marginals[at].cells; ++c) target(at)[c] += own[start + c];
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

    std::map<std::size_t, std::size_t> starts;
    std::vector<Mass> uncommon = scratch_cells(task, starts);
    const auto joints = tiled_joints(
        task, [&](std::uint32_t a) { return rare->columns.at(a).column; },
        [&](std::size_t at) { return uncommon.data() + starts[at]; });
    add_tiles(joints, masses.data(), 0, masses.size());
    for (const auto& [at, start] : starts) {
        const PlannedMarginal& marginal = plan_.marginals[at];
        const auto [target, add] = evaluation.target(marginal);
        const auto close = add ? close_axis<true> : close_axis<false>;
        close(slabs(columns_, marginal), columns_.common(task.rarest), uncommon.data() + start,
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

Marginals::Listed Marginals::list_marginal(const PlannedMarginal& marginal) const {
    Listed listed;
    listed.order = static_cast<std::uint32_t>(marginal.attributes.size());
    for (std::size_t i = 0; i < marginal.attributes.size(); ++i) {
        if (listed.order == 3 && static_cast<int>(i) == marginal.axis) continue;
        listed.b = std::exchange(listed.c, listed_axis(columns_, marginal, i));
    }
    if (listed.b.first_id > listed.c.first_id) std::swap(listed.b, listed.c);  // smaller ids first
    if (listed.order == 3) listed.rarest_stride = static_cast<std::uint32_t>(slabs(columns_, marginal).after);
    listed.sums = marginal.sums;
    listed.kept = marginal.kept;
    if (marginal.parent >= 0) listed.parent_kept = plan_.marginals[marginal.parent].kept;
    return listed;
}

void Marginals::run_lists_of_pairs(const Evaluation& evaluation, const PlannedTask& task) const {
    const IdLayout& layout = columns_.layout();
    IdPairSums sums(layout, layout.first[task.first_second], layout.first[task.last_second]);
    sums.add_all_rows(evaluation.columns.uncommon_ids(), evaluation.columns.rows(), evaluation.masses);
    for (const Listed& listed : listed_[task.list]) {
        const auto [target, add] = evaluation.target(listed);
        if (listed.order == 2)
            expand_pair(sums, listed.b, listed.c, add, target);
        else
            expand_single(sums, listed.c, add, target);
    }
}

void Marginals::run_lists_of_triples(const Evaluation& evaluation, const PlannedTask& task) const {
    const IdLayout& layout = columns_.layout();
    const UncommonIds& ids = evaluation.columns.uncommon_ids();
    const std::uint32_t size = columns_.column(task.rarest).size, common = columns_.common(task.rarest);
    const std::uint32_t first_id = layout.first[layout.position[task.rarest]];
    // The values are taken a few at a time, as many as keep their sums in cache: each marginal is then
    // written in one go.
    IdPairSums uncommon(layout, layout.first[task.first_second], layout.first[task.last_second]);
    std::vector<IdPairSums> some(
        std::clamp<std::size_t>(most_pair_cells / (uncommon.cells() + 1), 1, size - 1), uncommon);
    for (std::uint32_t from = 0; from + 1 < size; from += some.size()) {
        const auto count = std::min<std::uint32_t>(some.size(), size - 1 - from);
        for (std::uint32_t i = 0; i < count; ++i) {
            some[i].clear();
            some[i].add_rows_with(first_id + from + i, ids, evaluation.masses);
            uncommon.add(some[i]);
        }
        const bool last = from + count + 1 == size;
        for (const Listed& listed : listed_[task.list]) {
            const auto [target, add] = evaluation.target(listed);
            for (std::uint32_t i = 0; i < count; ++i) {
                const std::size_t value = from + i + (from + i >= common);
                expand_pair(some[i], listed.b, listed.c, add, target + value * listed.rarest_stride);
            }
            if (last)
                expand_pair(uncommon, listed.b, listed.c, add, target + common * listed.rarest_stride,
                            evaluation.kept.data() + listed.parent_kept);
        }
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
                for (const auto& joint : task.joints)
                    for (std::size_t at : joint.marginals) {
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
        for (std::size_t at = i * chunk; at < std::min(plan_.requested, (i + 1) * chunk); ++at) {
            const PlannedMarginal& marginal = plan_.marginals[at];
            TiledJoint joint{{},
                             marginal.cells,
                             {{std::vector<bool>(marginal.attributes.size(), true), sums + marginal.sums}}};
            for (std::uint32_t a : marginal.attributes) joint.columns.push_back(columns.column(a));
            add_tiles({&joint, 1}, masses, 0, columns.rows());
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
