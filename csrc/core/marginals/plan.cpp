#include "core/marginals/plan.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>

#include "core/marginals/tasks.hpp"

namespace privmw {

namespace {

using namespace costs;

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
        for (std::size_t at = 0; at < plan_.marginals.size(); ++at) {
            PlannedMarginal& marginal = plan_.marginals[at];
            if (marginal.parent >= 0) keep(marginal.parent);
        }
        make_tasks(columns_, statistics_, plan_);
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
        // Once a group uses the lists, their passes are free for others.
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

    // All three-way marginals with the same rarest attribute share the lists' passes: worth it if they are
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
        // If triples need the ids anyway, changes are cheaper with them: no columns to gather.
        const bool ids_are_there = std::any_of(plan_.marginals.begin(), plan_.marginals.end(),
                                               [](auto& marginal) { return marginal.way == Way::lists; });
        if (cost > otherwise * (ids_are_there ? 2 : 1)) return;
        for (std::size_t order : {1, 2})
            for (std::size_t at : by_order_[order])
                if (listed(plan_.marginals[at])) plan_.marginals[at].way = Way::lists;
    }

    // Marginals with the same parent are decided together: those that gain from the parent use it, if it is
    // worth its cost.
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

    const Columns& columns_;
    PairStatistics statistics_;
    Plan plan_;
    std::vector<std::vector<std::size_t>> by_order_ = std::vector<std::vector<std::size_t>>(3);
    std::unordered_map<std::u32string, std::size_t> known_;
};

}  // namespace

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

Plan make_plan(const Columns& columns, const MarginalList& workload) {
    return Planner(columns, workload).run();
}

}  // namespace privmw
