#include "core/marginals/marginals.hpp"

#include <algorithm>
#include <set>

#include "core/marginals/evaluation.hpp"
#include "core/parallel.hpp"

namespace privmw {

namespace {

// Columns gathered for way `rare` are stored up to this limit, and gathered at every evaluation beyond it. In
// bytes per row, so that the cost per row does not depend on their number; less if ids are stored too.
constexpr std::size_t rare_bytes_a_row = 160, rare_bytes_beside_ids = 32;
constexpr std::size_t least_rare_bytes = std::size_t{64} << 20;

}  // namespace

std::size_t Marginals::RareRows::bytes() const {
    std::size_t total = rows.size() * sizeof(Row);
    for (const OwnedColumn& owned : columns) total += owned.storage.size() * 4;
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
    keep_rare_rows(threads);
}

void Marginals::keep_rare_rows(int threads) {
    std::map<std::uint32_t, std::vector<const PlannedTask*>> tasks;  // by rarest attribute
    for (const auto& stage : plan_.stages)
        for (const auto& task : stage)
            if (task.way == Way::rare) tasks[task.rarest].push_back(&task);
    // Rarest first: most marginals per byte.
    std::vector<std::pair<std::uint32_t, std::uint32_t>> ranked;
    for (const auto& [attribute, members] : tasks) ranked.emplace_back(columns_.rank(attribute), attribute);
    std::sort(ranked.begin(), ranked.end());
    const std::size_t most = std::max(
        least_rare_bytes, columns_.rows() * (plan_.lists ? rare_bytes_beside_ids : rare_bytes_a_row));
    std::size_t bytes = 0;
    std::vector<std::uint32_t> kept;
    for (const auto& [rank, attribute] : ranked) {
        std::set<std::uint32_t> wanted;
        for (const auto* task : tasks.at(attribute))
            for (const auto& joint : task->joints)
                wanted.insert(joint.attributes.begin(), joint.attributes.end());
        std::size_t each = sizeof(Row);
        for (std::uint32_t a : wanted) each += columns_.column(a).width;
        bytes += columns_.uncommon_rows(attribute) * each;
        if (bytes > most) break;
        kept.push_back(attribute);
        rare_rows_[attribute];
    }
    for_each_task(static_cast<std::int64_t>(kept.size()), threads, [&](std::int64_t i) {
        RareRows& gathered = rare_rows_.at(kept[i]);
        gathered.rows = columns_.rows_with_uncommon(kept[i]);
        for (const auto* task : tasks.at(kept[i]))
            gathered = gather_rare_rows(columns_, *task, std::move(gathered));
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
        for (std::size_t at = i * chunk; at < std::min<std::size_t>(plan_.requested, (i + 1) * chunk); ++at) {
            const PlannedMarginal& marginal = plan_.marginals[at];
            TiledJoint joint{{}, marginal.cells, {{~std::uint32_t{0}, sums + marginal.sums}}};
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
    const double planned = plan_.cost_of_cells + share * plan_.cost;
    // Few rows: going through them marginal by marginal costs less than visiting every cell.
    const double by_tiles =
        (static_cast<double>(rows.size()) * 2 + 50) * static_cast<double>(plan_.requested);
    if (by_tiles < planned)
        add_by_tiles(*taken, changes, threads, sums);
    else
        evaluate(*taken, changes, true, threads, sums);
}

}  // namespace privmw
