#include "core/marginals/tasks.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>

namespace privmw {

namespace {

using namespace costs;

constexpr std::size_t most_joints_a_task = 32;
constexpr std::size_t most_joined_attributes = 6;
constexpr double most_joined_cells = 2048;

class Tasks {
  public:
    Tasks(const Columns& columns, const PairStatistics& statistics, Plan& plan)
        : columns_(columns), statistics_(statistics), plan_(plan) {}

    void run() {
        std::vector<std::vector<std::size_t>> by_order(1);
        for (std::size_t at = 0; at < plan_.marginals.size(); ++at) {
            const std::size_t order = plan_.marginals[at].attributes.size();
            if (by_order.size() <= order) by_order.resize(order + 1);
            by_order[order].push_back(at);
        }
        plan_.stages.resize(by_order.size());
        std::vector<std::size_t> pairs;  // and single attributes, in one pass
        for (std::size_t order = 1; order < by_order.size(); ++order) {
            std::vector<std::size_t> tiled;
            std::map<std::uint32_t, std::vector<std::size_t>> rare, triples;
            for (std::size_t at : by_order[order]) {
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
        }
        // Stage 0 needs no parents.
        if (!pairs.empty())
            add_list_tasks(0, pairs, 0, statistics_.within_all,
                           list_row * static_cast<double>(columns_.rows()));
        // The longest first, so that no thread is left with one at the end.
        for (auto& stage : plan_.stages) {
            std::stable_sort(stage.begin(), stage.end(), [](auto& a, auto& b) { return a.cost > b.cost; });
            for (const auto& task : stage) plan_.cost += task.cost;
        }
    }

  private:
    std::uint32_t rarest(const PlannedMarginal& marginal) const { return marginal.attributes[marginal.axis]; }

    // Puts marginals that share all but one attribute into joints while the rows saved outweigh the cells
    // summed over.
    std::vector<PlannedJoint> join(const std::vector<std::size_t>& members, double rows) const {
        std::unordered_map<std::u32string, std::vector<std::size_t>> sharing;  // by what is shared
        std::vector<const std::u32string*> names;
        for (std::size_t at : members)
            for (std::size_t without = 0; without < plan_.marginals[at].attributes.size(); ++without) {
                std::u32string shared(plan_.marginals[at].attributes.begin(),
                                      plan_.marginals[at].attributes.end());
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
                PlannedJoint joint{plan_.marginals[group[i]].attributes, {group[i]}, {}};
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
            if (!joined[at]) joints.push_back({plan_.marginals[at].attributes, {at}, {}});
        for (PlannedJoint& joint : joints)
            for (std::size_t at : joint.marginals) {
                std::uint32_t keeps = 0;
                for (std::size_t i = 0; i < joint.attributes.size(); ++i)
                    if (std::ranges::binary_search(plan_.marginals[at].attributes, joint.attributes[i]))
                        keeps |= std::uint32_t{1} << i;
                joint.keeps.push_back(keeps);
            }
        return joints;
    }

    void add_tiles_tasks(std::size_t stage, const std::vector<std::size_t>& members) {
        const auto joints = join(members, static_cast<double>(columns_.rows()));
        // Few joints of many rows: divide the rows instead, unless copies of the cells would be too large.
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
                        const Wiped<double>& pairs, double overhead) {
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
    const PairStatistics& statistics_;
    Plan& plan_;
};

}  // namespace

void make_tasks(const Columns& columns, const PairStatistics& statistics, Plan& plan) {
    Tasks(columns, statistics, plan).run();
}

}  // namespace privmw
