#include "core/plan.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>

namespace privmw {

namespace {

// Nanoseconds, measured on one core of a shared server; see benches/README.md. A row is added to a joint in
// tile_row; a joint serves about two three-way marginals, and more two-way ones, whose cells are fewer.
constexpr double tile_row = 0.85, row_of_pair = 0.25, row_of_more = 0.5, row_of_wide = 2.5;
constexpr double tile_cell = 1.0, joined_cell = 1.5;
constexpr double rare_gather = 0.1, rare_cell = 2.0;
constexpr double list_pair = 0.75, list_row = 6.0, list_cell = 2.0, list_clear = 0.3;
constexpr std::size_t most_joints_a_task = 32;
constexpr std::size_t most_joined_attributes = 6;
constexpr double most_joined_cells = 2048;

// How many pairs of ids the lists would visit, estimated from evenly spaced rows.
struct PairStatistics {
    std::vector<double> within_all;           // by position of the pair's first attribute
    std::vector<std::vector<double>> within;  // [position of the rarest][position of the pair's first]
};

PairStatistics sample_pairs(const Columns& columns) {
    const IdLayout& layout = columns.layout();
    const std::size_t width = layout.ranked.size();
    PairStatistics statistics{std::vector<double>(width),
                              std::vector<std::vector<double>>(width, std::vector<double>(width))};
    const std::size_t samples = std::min<std::size_t>(columns.rows(), 1024);
    const double each = samples ? static_cast<double>(columns.rows()) / static_cast<double>(samples) : 0;
    std::vector<std::size_t> uncommon;
    for (std::size_t s = 0; s < samples; ++s) {
        const auto row = static_cast<std::size_t>(static_cast<double>(s) * each);
        uncommon.clear();
        for (std::size_t p = 0; p < width; ++p) {
            const auto attribute = static_cast<std::size_t>(layout.ranked[p]);
            const bool common = with_codes(columns.column(attribute), [&](const auto* codes) {
                return codes[row] == columns.common(attribute);
            });
            if (!common) uncommon.push_back(p);
        }
        for (std::size_t j = 0; j < uncommon.size(); ++j) {
            const double partners = each * static_cast<double>(uncommon.size() - 1 - j);
            statistics.within_all[uncommon[j]] += partners;
            for (std::size_t i = 0; i < j; ++i) statistics.within[uncommon[i]][uncommon[j]] += partners;
        }
    }
    return statistics;
}

double pair_cells(const IdLayout& layout, std::size_t first, std::size_t last) {
    double cells = 0;
    for (std::size_t p = first; p < last; ++p)
        cells += static_cast<double>(layout.first[p + 1] - layout.first[p]) *
                 (layout.count() - layout.first[p + 1] + 1);
    return cells;
}

class Planner {
  public:
    Planner(const Columns& columns, const MarginalList& workload)
        : columns_(columns), statistics_(sample_pairs(columns)) {
        for (std::size_t j = 0; j < workload.size(); ++j) {
            const auto* begin = workload.attributes.data() + workload.starts[j];
            const auto at = add({begin, workload.attributes.data() + workload.starts[j + 1]});
            plan_.marginals[at].sums = static_cast<std::ptrdiff_t>(plan_.cells);
            plan_.cells += plan_.marginals[at].cells;
        }
        plan_.requested = plan_.marginals.size();
    }

    Plan run() {
        for (std::size_t order = by_order_.size(); order-- > 2;) {
            if (order == 3) choose_lists_of_triples();
            if (order == 2) choose_lists_of_pairs();
            choose_sparse_or_tiles(order);
        }
        plan_.stages.resize(by_order_.size() + 1);
        for (std::size_t at = 0; at < plan_.marginals.size(); ++at) {
            PlannedMarginal& marginal = plan_.marginals[at];
            if (marginal.parent >= 0) keep(marginal.parent);
        }
        make_tasks();
        for (auto& stage : plan_.stages) {
            std::stable_sort(stage.begin(), stage.end(), [](auto& a, auto& b) { return a.cost > b.cost; });
            for (const auto& task : stage) plan_.cost += task.cost;
        }
        return std::move(plan_);
    }

  private:
    std::size_t add(std::vector<std::uint32_t> attributes) {
        const std::size_t at = plan_.marginals.size();
        PlannedMarginal marginal;
        for (std::uint32_t a : attributes) marginal.cells *= columns_.column(a).size;
        if (by_order_.size() <= attributes.size()) by_order_.resize(attributes.size() + 1);
        by_order_[attributes.size()].push_back(at);
        known_.emplace(key(attributes), at);
        marginal.attributes = std::move(attributes);
        marginal.axis = rarest_axis(marginal.attributes);
        plan_.marginals.push_back(std::move(marginal));
        return at;
    }

    static std::u32string key(const std::vector<std::uint32_t>& attributes) {
        return {attributes.begin(), attributes.end()};
    }

    int rarest_axis(const std::vector<std::uint32_t>& attributes) const {
        const auto rarest = std::min_element(attributes.begin(), attributes.end(), [&](auto a, auto b) {
            return columns_.rank(a) < columns_.rank(b);
        });
        return static_cast<int>(rarest - attributes.begin());
    }

    std::uint32_t rarest(const PlannedMarginal& marginal) const { return marginal.attributes[marginal.axis]; }

    bool listed(const PlannedMarginal& marginal) const {
        return std::all_of(marginal.attributes.begin(), marginal.attributes.end(),
                           [&](auto a) { return columns_.layout().position[a] >= 0; });
    }

    double row_cost(const PlannedMarginal& marginal) const {
        if (marginal.cells > 0x10000) return row_of_wide;
        return marginal.attributes.size() <= 2 ? row_of_pair : row_of_more;
    }

    double tiles_cost(const PlannedMarginal& marginal) const {
        return static_cast<double>(columns_.rows()) * row_cost(marginal) +
               static_cast<double>(marginal.cells) * tile_cell;
    }

    double rare_cost(const PlannedMarginal& marginal) const {
        return static_cast<double>(columns_.uncommon_rows(rarest(marginal))) *
                   (row_cost(marginal) + rare_gather) +
               static_cast<double>(marginal.cells) * rare_cell;
    }

    double sparse_cost(const PlannedMarginal& marginal) const {
        // The lists' passes are paid already once a group has chosen them.
        return marginal.way == Way::lists ? static_cast<double>(marginal.cells) * list_cell
                                          : rare_cost(marginal);
    }

    double list_cost(std::uint32_t rarest) const {
        const IdLayout& layout = columns_.layout();
        const auto p = static_cast<std::size_t>(layout.position[rarest]);
        double pairs = 0;
        for (double within : statistics_.within[p]) pairs += within;
        return pairs * list_pair + static_cast<double>(columns_.uncommon_rows(rarest)) * list_row +
               pair_cells(layout, p + 1, layout.ranked.size()) * list_clear *
                   (columns_.column(rarest).size - 1);
    }

    // All three-way marginals with the same rarest attribute share the lists' passes: worth it when they are
    // many.
    void choose_lists_of_triples() {
        std::map<std::uint32_t, std::vector<std::size_t>> groups;
        for (std::size_t at : by_order_[3])
            if (listed(plan_.marginals[at])) groups[rarest(plan_.marginals[at])].push_back(at);
        for (const auto& [attribute, members] : groups) {
            double otherwise = 0, cells = 0;
            for (std::size_t at : members) {
                otherwise += std::min(rare_cost(plan_.marginals[at]), tiles_cost(plan_.marginals[at]));
                cells += static_cast<double>(plan_.marginals[at].cells);
            }
            if (list_cost(attribute) + cells * list_cell < otherwise)
                for (std::size_t at : members) plan_.marginals[at].way = Way::lists;
        }
    }

    // One pass over all rows serves every pair and every single attribute.
    void choose_lists_of_pairs() {
        double pairs = 0, otherwise = 0;
        for (double within : statistics_.within_all) pairs += within;
        for (std::size_t at : by_order_[2])
            if (listed(plan_.marginals[at]))
                otherwise += std::min(tiles_cost(plan_.marginals[at]), rare_cost(plan_.marginals[at]));
        const double cost = pairs * list_pair + static_cast<double>(columns_.rows()) * list_row +
                            pair_cells(columns_.layout(), 0, columns_.layout().ranked.size()) * list_clear;
        // Where triples need the ids anyway, changes are cheaper with them: no columns to gather.
        const bool ids_are_there = std::any_of(plan_.marginals.begin(), plan_.marginals.end(),
                                               [](auto& marginal) { return marginal.way == Way::lists; });
        if (cost > otherwise * (ids_are_there ? 2 : 1)) return;
        for (std::size_t order : {1, 2})
            for (std::size_t at : by_order_[order])
                if (listed(plan_.marginals[at])) plan_.marginals[at].way = Way::lists;
    }

    // Marginals with one parent stand together: either all but hopeless ones lean on it, or it is not worth
    // having.
    void choose_sparse_or_tiles(std::size_t order) {
        std::unordered_map<std::u32string, std::vector<std::size_t>> families;
        std::vector<std::u32string> names;
        for (std::size_t at : by_order_[order]) {
            if (order == 2 && plan_.marginals[at].way == Way::lists) continue;  // served without a parent
            auto parent = plan_.marginals[at].attributes;
            parent.erase(parent.begin() + plan_.marginals[at].axis);
            auto& family = families[key(parent)];
            if (family.empty()) names.push_back(key(parent));
            family.push_back(at);
        }
        for (const auto& name : names) {
            std::vector<std::size_t> gaining;
            double gain = 0;
            for (std::size_t at : families[name]) {
                const double saved = tiles_cost(plan_.marginals[at]) - sparse_cost(plan_.marginals[at]);
                if (saved > 0 || plan_.marginals[at].way == Way::lists) gaining.push_back(at);
                if (saved > 0) gain += saved;
            }
            std::vector<std::uint32_t> attributes(name.begin(), name.end());
            const auto found = known_.find(name);
            if (found == known_.end()) {
                PlannedMarginal parent;
                for (std::uint32_t a : attributes) parent.cells *= columns_.column(a).size;
                parent.axis = rarest_axis(attributes);
                parent.attributes = attributes;
                gain -= std::min(tiles_cost(parent), rare_cost(parent));
            }
            if (gain <= 0) {
                for (std::size_t at : families[name]) plan_.marginals[at].way = Way::tiles;
                continue;
            }
            const std::size_t parent = found == known_.end() ? add(std::move(attributes)) : found->second;
            for (std::size_t at : gaining) {
                if (plan_.marginals[at].way != Way::lists) plan_.marginals[at].way = Way::rare;
                plan_.marginals[at].parent = static_cast<std::ptrdiff_t>(parent);
            }
        }
    }

    void keep(std::ptrdiff_t at) {
        PlannedMarginal& marginal = plan_.marginals[at];
        if (marginal.kept >= 0) return;
        marginal.kept = static_cast<std::ptrdiff_t>(plan_.kept_cells);
        plan_.kept_cells += marginal.cells;
    }

    void make_tasks() {
        for (std::size_t order = 1; order < by_order_.size(); ++order) {
            std::vector<std::size_t> tiled;
            std::map<std::uint32_t, std::vector<std::size_t>> rare, triples;
            std::vector<std::size_t> pairs;
            for (std::size_t at : by_order_[order]) {
                const PlannedMarginal& marginal = plan_.marginals[at];
                plan_.cost_of_cells += static_cast<double>(marginal.cells) * list_cell;
                if (marginal.way == Way::tiles) tiled.push_back(at);
                if (marginal.way == Way::rare) rare[rarest(marginal)].push_back(at);
                if (marginal.way == Way::lists)
                    (order == 3 ? triples[rarest(marginal)] : pairs).push_back(at);
            }
            add_tiles_tasks(order, tiled);
            for (const auto& [attribute, members] : rare) add_rare_tasks(order, attribute, members);
            for (const auto& [attribute, members] : triples) {
                const auto p = static_cast<std::size_t>(columns_.layout().position[attribute]);
                add_list_tasks(order, members, p + 1, statistics_.within[p],
                               list_row * static_cast<double>(columns_.uncommon_rows(attribute)));
            }
            // Stage 0: nothing comes before them.
            if (!pairs.empty())
                add_list_tasks(0, pairs, 0, statistics_.within_all,
                               list_row * static_cast<double>(columns_.rows()));
        }
    }

    // Puts marginals that share all but one attribute into joints while the rows saved outweigh the cells
    // summed over.
    std::vector<PlannedJoint> join(const std::vector<std::size_t>& members, double rows) const {
        std::unordered_map<std::u32string, std::vector<std::size_t>> sharing;  // by what is shared
        std::vector<const std::u32string*> names;
        for (std::size_t at : members)
            for (std::size_t without = 0; without < plan_.marginals[at].attributes.size(); ++without) {
                std::u32string shared = key(plan_.marginals[at].attributes);
                shared.erase(shared.begin() + static_cast<std::ptrdiff_t>(without));
                const auto found = sharing.try_emplace(std::move(shared)).first;
                if (found->second.empty()) names.push_back(&found->first);
                found->second.push_back(at);
            }
        std::stable_sort(names.begin(), names.end(),
                         [&](auto* x, auto* y) { return sharing.at(*x).size() > sharing.at(*y).size(); });
        std::vector<PlannedJoint> joints;
        std::vector<bool> joined(plan_.marginals.size());
        for (const auto* name : names) {
            auto& group = sharing.at(*name);
            std::erase_if(group, [&](std::size_t at) { return joined[at]; });
            std::stable_sort(group.begin(), group.end(), [&](std::size_t x, std::size_t y) {
                return plan_.marginals[x].cells < plan_.marginals[y].cells;
            });
            double shared_cells = 1;
            for (char32_t a : *name) shared_cells *= columns_.column(a).size;
            for (std::size_t i = 0; i < group.size();) {
                PlannedJoint joint{plan_.marginals[group[i]].attributes, {group[i]}};
                double cells = static_cast<double>(plan_.marginals[group[i]].cells);
                for (++i; i < group.size() && joint.attributes.size() < most_joined_attributes; ++i) {
                    const double grown =
                        cells * static_cast<double>(plan_.marginals[group[i]].cells) / shared_cells;
                    const double saved = tile_row * rows * static_cast<double>(joint.marginals.size());
                    if (grown > most_joined_cells ||
                        grown * joined_cell * static_cast<double>(joint.marginals.size() + 1) > saved)
                        break;
                    cells = grown;
                    for (std::uint32_t a : plan_.marginals[group[i]].attributes)
                        if (!std::binary_search(joint.attributes.begin(), joint.attributes.end(), a))
                            joint.attributes.insert(
                                std::upper_bound(joint.attributes.begin(), joint.attributes.end(), a), a);
                    joint.marginals.push_back(group[i]);
                }
                if (joint.marginals.size() == 1) continue;  // perhaps it shares more with others
                for (std::size_t at : joint.marginals) joined[at] = true;
                joints.push_back(std::move(joint));
            }
        }
        for (std::size_t at : members)
            if (!joined[at]) joints.push_back({plan_.marginals[at].attributes, {at}});
        return joints;
    }

    void add_tiles_tasks(std::size_t stage, const std::vector<std::size_t>& members) {
        const auto joints = join(members, static_cast<double>(columns_.rows()));
        // Few joints of many rows: share the rows instead. Wide marginals would need a copy of their cells
        // each.
        const bool few = joints.size() < 32;
        const std::size_t parts = few ? std::clamp<std::size_t>(columns_.rows() >> 18, 1, 16) : 1;
        add_tasks_of(stage, joints, few ? 1 : 8, [&](PlannedTask& task) {
            const bool wide = plan_.marginals[task.joints[0].marginals[0]].cells > 0x10000;
            task.parts = wide ? 1 : parts;
            task.cost =
                static_cast<double>(task.joints.size() * columns_.rows()) / static_cast<double>(task.parts);
        });
    }

    void add_rare_tasks(std::size_t stage, std::uint32_t attribute, const std::vector<std::size_t>& members) {
        const auto rows = static_cast<double>(columns_.uncommon_rows(attribute));
        add_tasks_of(stage, join(members, rows), most_joints_a_task, [&](PlannedTask& task) {
            task.way = Way::rare;
            task.rarest = attribute;
            task.cost = rows * static_cast<double>(task.joints.size());
        });
    }

    template <class Finish>
    void add_tasks_of(std::size_t stage, const std::vector<PlannedJoint>& joints, std::size_t chunk,
                      Finish finish) {
        for (std::size_t from = 0; from < joints.size(); from += chunk) {
            PlannedTask task;
            task.joints.assign(
                joints.begin() + static_cast<std::ptrdiff_t>(from),
                joints.begin() + static_cast<std::ptrdiff_t>(std::min(joints.size(), from + chunk)));
            finish(task);
            task.cost *= tile_row;
            for (task.part = 0; task.part < task.parts; ++task.part) plan_.stages[stage].push_back(task);
        }
    }

    double all_list_pairs() const {
        double total = 0;
        for (const auto& within : statistics_.within)
            for (double pairs : within) total += pairs;
        return total;
    }

    // Tasks of about equal cost: each takes a range of the pairs' first attribute.
    void add_list_tasks(std::size_t stage, const std::vector<std::size_t>& members, std::size_t first,
                        const std::vector<double>& pairs, double overhead) {
        const IdLayout& layout = columns_.layout();
        const std::size_t width = layout.ranked.size();
        std::vector<std::vector<std::size_t>> by_second(width);
        const bool triples = stage != 0;
        for (std::size_t at : members) {
            const PlannedMarginal& marginal = plan_.marginals[at];
            std::size_t second = width;
            for (std::size_t i = 0; i < marginal.attributes.size(); ++i)
                if (!triples || static_cast<int>(i) != marginal.axis)
                    second =
                        std::min(second, static_cast<std::size_t>(layout.position[marginal.attributes[i]]));
            by_second[second].push_back(at);
        }
        // Small enough to share out, large enough to be worth the overhead that each repeats.
        const double share = std::max(all_list_pairs() * list_pair / 48, 8 * overhead);
        PlannedTask task;
        task.first_second = static_cast<int>(first);
        task.cost = overhead;
        for (std::size_t p = first; p < width; ++p) {
            task.cost += pairs[p] * list_pair;
            task.marginals.insert(task.marginals.end(), by_second[p].begin(), by_second[p].end());
            for (std::size_t at : by_second[p])
                task.cost += static_cast<double>(plan_.marginals[at].cells) * list_cell;
            if (task.cost < share && p + 1 < width) continue;
            task.way = Way::lists;
            task.last_second = static_cast<int>(p + 1);
            if (triples && !members.empty()) task.rarest = rarest(plan_.marginals[members[0]]);
            if (!task.marginals.empty()) {
                task.list = plan_.lists++;
                plan_.stages[stage].push_back(task);
            }
            task = PlannedTask{};
            task.first_second = static_cast<int>(p + 1);
            task.cost = overhead;
        }
    }

    const Columns& columns_;
    PairStatistics statistics_;
    Plan plan_;
    std::vector<std::vector<std::size_t>> by_order_ = std::vector<std::vector<std::size_t>>(3);
    std::unordered_map<std::u32string, std::size_t> known_;
};

}  // namespace

Plan make_plan(const Columns& columns, const MarginalList& workload) {
    return Planner(columns, workload).run();
}

}  // namespace privmw
