// The three ways of evaluating marginals (plan.hpp), one task at a time.
#include <algorithm>
#include <utility>

#include "core/marginals/evaluation.hpp"

namespace privmw {

namespace {

// Sums by pairs of ids that a task has at a time: 4 MB.
constexpr std::size_t most_pair_cells = std::size_t{1} << 19;

template <bool add>
void put(Mass& cell, Mass mass) {
    cell = add ? cell + mass : mass;
}

}  // namespace

Marginals::RareRows Marginals::gather_rare_rows(const Columns& columns, const PlannedTask& task,
                                                RareRows gathered) const {
    gathered.columns.resize(columns.attributes());
    for (const PlannedJoint& joint : task.joints)
        for (std::uint32_t attribute : joint.attributes)
            if (gathered.columns[attribute].storage.empty())
                gathered.columns[attribute] =
                    gather(columns.column(attribute), gathered.rows.data(), gathered.rows.size());
    return gathered;
}

// The joints of a task over some columns; where(marginal), called in order, is where each is added.
template <class Find, class Where>
std::vector<TiledJoint> Marginals::tiled_joints(const PlannedTask& task, Find&& column, Where&& where) const {
    std::vector<TiledJoint> joints(task.joints.size());
    for (std::size_t j = 0; j < joints.size(); ++j) {
        const PlannedJoint& planned = task.joints[j];
        for (std::uint32_t a : planned.attributes) {
            joints[j].columns.push_back(column(a));
            joints[j].cells *= joints[j].columns.back().size;
        }
        for (std::size_t k = 0; k < planned.marginals.size(); ++k)
            joints[j].marginals.push_back({planned.keeps[k], where(planned.marginals[k])});
    }
    return joints;
}

// Evaluates the joints of a task into scratch cells, then passes each marginal its cells.
template <class Find, class Use>
void Marginals::run_aside(const PlannedTask& task, Find&& column, const Mass* masses, std::size_t first,
                          std::size_t last, Use&& use) const {
    std::size_t cells = 0;
    for (const PlannedJoint& joint : task.joints)
        for (std::size_t at : joint.marginals) cells += plan_.marginals[at].cells;
    Wiped<Mass> aside(cells);
    Mass* next = aside.data();
    add_tiles(
        tiled_joints(task, column,
                     [&](std::size_t at) { return std::exchange(next, next + plan_.marginals[at].cells); }),
        masses, first, last);
    next = aside.data();
    for (const PlannedJoint& joint : task.joints)
        for (std::size_t at : joint.marginals) {
            use(plan_.marginals[at], next);
            next += plan_.marginals[at].cells;
        }
}

void Marginals::run_tiles(const Evaluation& evaluation, const PlannedTask& task) const {
    const std::size_t rows = evaluation.columns.rows();
    const std::size_t first = rows * task.part / task.parts, last = rows * (task.part + 1) / task.parts;
    const auto column = [&](std::uint32_t a) { return evaluation.columns.column(a); };
    if (task.parts == 1) {
        const auto target = [&](std::size_t at) { return evaluation.target(plan_.marginals[at]).first; };
        return add_tiles(tiled_joints(task, column, target), evaluation.masses, first, last);
    }
    // Other threads add other rows to the same cells.
    run_aside(task, column, evaluation.masses, first, last,
              [&](const PlannedMarginal& marginal, const Mass* own) {
                  Mass* const target = evaluation.target(marginal).first;
                  std::lock_guard lock(evaluation.merging);
                  for (std::size_t c = 0; c < marginal.cells; ++c) target[c] += own[c];
              });
}

namespace {

// `uncommon` holds the cells of the uncommon values; those of the common one are the parent less these.
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
    for (std::size_t i = 0; i < masses.size(); ++i) {
        // In a long table each of these is a cache miss; prefetched, they arrive together.
        __builtin_prefetch(evaluation.masses + rare->rows[std::min(i + 32, masses.size() - 1)]);
        masses[i] = evaluation.masses[rare->rows[i]];
    }

    const auto column = [&](std::uint32_t a) { return rare->columns[a].column; };
    run_aside(task, column, masses.data(), 0, masses.size(),
              [&](const PlannedMarginal& marginal, const Mass* uncommon) {
                  const auto [target, add] = evaluation.target(marginal);
                  const auto close = add ? close_axis<true> : close_axis<false>;
                  close(slabs(columns_, marginal), columns_.common(task.rarest), uncommon,
                        evaluation.parent(plan_, marginal), target);
              });
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
    // A few values at a time, so that their sums stay in cache and each marginal is written at once.
    IdPairSums uncommon(layout, layout.first[task.first_second], layout.first[task.last_second]);
    Wiped<IdPairSums> some(std::clamp<std::size_t>(most_pair_cells / (uncommon.cells() + 1), 1, size - 1),
                           uncommon);
    for (std::uint32_t from = 0; from + 1 < size; from += some.size()) {
        const auto count = std::min<std::uint32_t>(some.size(), size - 1 - from);
        for (std::uint32_t i = 0; i < count; ++i) {
            if (from > 0) some[i].clear();  // new ones are zero
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

}  // namespace privmw
