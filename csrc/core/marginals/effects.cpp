#include "core/marginals/effects.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>

#include "core/marginals/effect_sweeps.hpp"
#include "core/parallel.hpp"
#include "core/power_of_two.hpp"

namespace privmw {

namespace {

constexpr std::uint32_t absent = 0xffffffff;
constexpr std::size_t builder_block = 1024;  // rows whose codes are gathered at a time

}  // namespace

// Finds the sets, and lists the effects of row after row.
class Effects::Builder {
  public:
    Builder(const Columns& columns, const MarginalList& workload)
        : columns_(columns), attributes_(columns.attributes()) {
        // The sets, shorter ones first.
        std::map<std::size_t, std::set<std::vector<std::uint32_t>>> by_order;
        const auto subset = [&](std::size_t j, std::size_t bits) {
            std::vector<std::uint32_t> chosen;
            for (std::size_t p = workload.starts[j]; p < workload.starts[j + 1]; ++p, bits >>= 1)
                if (bits & 1) chosen.push_back(workload.attributes[p]);
            return chosen;
        };
        const auto subsets = [&](std::size_t j) {
            return std::size_t{1} << (workload.starts[j + 1] - workload.starts[j]);
        };
        by_order[0].insert({{}});
        for (std::size_t j = 0; j < workload.size(); ++j)
            for (std::size_t bits = 1; bits < subsets(j); ++bits) {
                auto chosen = subset(j, bits);
                by_order[chosen.size()].insert(std::move(chosen));
            }
        for (const auto& [order, sets] : by_order)
            for (const auto& attributes : sets) {
                numbers_.emplace(attributes, static_cast<std::uint32_t>(nodes_.size()));
                made_.sets_.push_back({attributes, 0, 0, {}, {}, {}});
                nodes_.push_back({cells_});
                std::size_t cells = 1;
                for (std::uint32_t a : attributes) cells *= columns.column(a).size;
                cells_ += cells;
            }
        for (std::size_t j = 0; j < workload.size(); ++j) {
            Member member;
            for (std::size_t bits = 0; bits < subsets(j); ++bits)
                member.sets.push_back(numbers_.at(subset(j, bits)));
            made_.members_.push_back(std::move(member));
        }
    }

    // False where there are too many.
    bool list_rows(std::size_t most_bytes) {
        if (cells_ * sizeof(std::uint32_t) > most_bytes) return false;
        numbers_of_cells_.assign(cells_, absent);
        numbers_of_cells_[0] = 0;
        const std::size_t rows = columns_.rows();
        starts_.assign(1, 0);
        index_sets();
        std::vector<std::uint32_t> codes(builder_block * attributes_);
        for (std::size_t first = 0; first < rows; first += builder_block) {
            const std::size_t last = std::min(rows, first + builder_block);
            for (std::size_t a = 0; a < attributes_; ++a)
                with_codes(columns_.column(a), [&](const auto* column) {
                    for (std::size_t row = first; row < last; ++row)
                        codes[(row - first) * attributes_ + a] = column[row];
                });
            for (std::size_t row = first; row < last; ++row) {
                row_ = codes.data() + (row - first) * attributes_;
                list_row();
            }
            if (effects_.size() * sizeof(std::uint32_t) > most_bytes) return false;
        }
        return true;
    }

    Effects finish(std::span<const std::int64_t> places) {
        number_effects();
        for (std::size_t s = 1; s < nodes_.size(); ++s) find_parents(s);
        find_places(places);
        return std::move(made_);
    }

  private:
    struct Node {
        std::size_t first = 0;  // of its cells among those of all sets
    };
    struct PairSet {
        std::uint32_t first = 0, size = 0;  // of its cells, and of its second attribute; 0 where it is no set
    };

    // A set of more than two attributes, found at its first.
    struct Larger {
        std::uint32_t first = 0;  // of its cells
        std::uint32_t order = 0;
        std::array<std::uint32_t, 6> attributes{}, strides{};
    };

    // For each attribute, the sets that begin with it.
    void index_sets() {
        singles_.resize(attributes_);
        uncommon_.resize(attributes_ + 1);
        is_uncommon_.resize(attributes_);
        pairs_.resize(attributes_ * attributes_);
        larger_.resize(attributes_);
        row_cells_.resize(nodes_.size() + 1);
        for (std::size_t s = 1; s < nodes_.size(); ++s) {
            const auto& attributes = made_.sets_[s].attributes;
            const auto first = static_cast<std::uint32_t>(nodes_[s].first);
            if (attributes.size() == 1) {
                asked_.push_back(attributes[0]);
                singles_[attributes[0]] = s;
            } else if (attributes.size() == 2) {
                pairs_[attributes[0] * attributes_ + attributes[1]] = {first,
                                                                       columns_.column(attributes[1]).size};
            } else {
                Larger set{first, static_cast<std::uint32_t>(attributes.size()), {}, {}};
                std::uint32_t stride = 1;
                for (std::size_t p = attributes.size(); p-- > 0;) {
                    set.attributes[p] = attributes[p];
                    set.strides[p] = stride;
                    stride *= columns_.column(attributes[p]).size;
                }
                larger_[attributes[0]].push_back(set);
            }
        }
    }

    // Lists the cells of a row's effects, without a branch on whether it has one: that is as good as random.
    void list_row() {
        std::size_t count = 0, found = 0;
        for (std::uint32_t a : asked_) {
            uncommon_[count] = a;
            is_uncommon_[a] = row_[a] != columns_.common(a);
            row_cells_[found] = static_cast<std::uint32_t>(nodes_[singles_[a]].first) + row_[a];
            count += is_uncommon_[a];
            found += is_uncommon_[a];
        }
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint32_t a = uncommon_[i];
            const PairSet* const with = pairs_.data() + a * attributes_;
            for (std::size_t k = i + 1; k < count; ++k) {
                const PairSet& pair = with[uncommon_[k]];
                row_cells_[found] = pair.first + row_[a] * pair.size + row_[uncommon_[k]];
                found += pair.size != 0;
            }
            for (const Larger& set : larger_[a]) {
                std::uint32_t cell = set.first + row_[a] * set.strides[0];
                std::uint32_t has = 1;
                for (std::uint32_t p = 1; p < set.order; ++p) {
                    cell += row_[set.attributes[p]] * set.strides[p];
                    has &= is_uncommon_[set.attributes[p]];
                }
                row_cells_[found] = cell;
                found += has;
            }
        }
        for (std::size_t i = 0; i < found; ++i) {
            std::uint32_t& number = numbers_of_cells_[row_cells_[i]];
            if (number == absent) number = static_cast<std::uint32_t>(made_.count_++);
            row_cells_[i] = number;
        }
        effects_.insert(effects_.end(), row_cells_.data(), row_cells_.data() + found);
        starts_.push_back(effects_.size());
    }

    // Number the effects set by set, in the order of cells: neighbours lie side by side.
    void number_effects() {
        std::vector<std::uint32_t> numbers(made_.count_);
        std::size_t next = 0, high = 0;
        for (std::size_t s = 0; s < nodes_.size(); ++s) {
            made_.sets_[s].first = next;
            for (std::size_t at = nodes_[s].first;
                 at < (s + 1 < nodes_.size() ? nodes_[s + 1].first : cells_); ++at)
                if (std::uint32_t& number = numbers_of_cells_[at]; number != absent)
                    number = numbers[number] = static_cast<std::uint32_t>(next++);
            made_.sets_[s].count = next - made_.sets_[s].first;
        }
        RowEffects& lists = made_.lists_;
        for (std::uint32_t& effect : effects_) {
            effect = numbers[effect];
            high += effect > 0xffff;
        }
        lists.low.resize(effects_.size() - high + 1);  // and one that is written, but not there
        lists.high.resize(high + 1);
        std::size_t low_end = 0, high_end = 0;
        for (std::size_t row = 0; row + 1 < starts_.size(); ++row) {
            for (std::size_t at = starts_[row]; at < starts_[row + 1]; ++at) {
                lists.low[low_end] = static_cast<std::uint16_t>(effects_[at]);
                lists.high[high_end] = effects_[at];
                low_end += effects_[at] <= 0xffff;
                high_end += effects_[at] > 0xffff;
            }
            lists.low_starts.push_back(static_cast<std::int64_t>(low_end));
            lists.high_starts.push_back(static_cast<std::int64_t>(high_end));
        }
    }

    void find_parents(std::size_t s) {
        Set& set = made_.sets_[s];
        const std::size_t order = set.attributes.size();
        std::size_t cells = 1;
        std::vector<std::size_t> sizes;
        std::vector<std::pair<const std::uint32_t*, std::size_t>> without;  // its effects by cell, the first
        for (std::size_t p = 0; p < order; ++p) {
            sizes.push_back(columns_.column(set.attributes[p]).size);
            cells *= sizes[p];
            auto rest = set.attributes;
            rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(p));
            const std::uint32_t other = numbers_.at(rest);
            without.emplace_back(numbers_of_cells_.data() + nodes_[other].first, made_.sets_[other].first);
        }
        set.parents.assign(order - 1, std::vector<std::uint32_t>(set.count));
        set.ends.assign(made_.sets_[numbers_.at({set.attributes.begin(), set.attributes.end() - 1})].count,
                        0);
        set.values.reserve(set.count * order);
        std::size_t i = 0;
        for (std::size_t cell = 0; i < set.count; ++cell) {
            if (numbers_of_cells_[nodes_[s].first + cell] == absent) continue;
            std::size_t after = cells, left = cell;
            for (std::size_t p = 0; p < order; ++p) {
                const std::size_t before = cell / after;
                after /= sizes[p];
                set.values.push_back(static_cast<std::uint32_t>(left / after));
                left %= after;
                const auto [numbers, first] = without[p];
                const std::size_t parent = numbers[before * after + left] - first;
                if (p + 1 < order)
                    set.parents[p][i] = static_cast<std::uint32_t>(parent);
                else
                    set.ends[parent] = static_cast<std::uint32_t>(i + 1);
            }
            ++i;
        }
        for (std::size_t parent = 1; parent < set.ends.size(); ++parent)
            set.ends[parent] = std::max(set.ends[parent], set.ends[parent - 1]);
    }

    void find_places(std::span<const std::int64_t> places) {
        made_.places_ = places.size();
        std::vector<std::uint32_t> place_of;  // by cell of the marginal
        std::int64_t first_cell = 0;
        std::size_t next = 0;
        for (Member& member : made_.members_) {
            const Set& whole = made_.sets_[member.sets.back()];
            const std::size_t order = whole.attributes.size();
            std::vector<std::int64_t> strides(order);
            std::int64_t cells = 1, common = 0;
            for (std::size_t p = order; p-- > 0;) {
                strides[p] = cells;
                common += columns_.common(whole.attributes[p]) * cells;
                cells *= columns_.column(whole.attributes[p]).size;
            }
            place_of.assign(static_cast<std::size_t>(cells), absent);
            for (; next < places.size() && places[next] < first_cell + cells; ++next)
                place_of[places[next] - first_cell] = static_cast<std::uint32_t>(next);
            first_cell += cells;
            member.first = made_.place_of_.size();
            for (std::size_t bits = 0; bits < member.sets.size(); ++bits) {
                const Set& set = made_.sets_[member.sets[bits]];
                for (std::size_t i = 0; i < set.count; ++i) {
                    std::int64_t cell = common;
                    std::size_t at = i * set.attributes.size();
                    for (std::size_t p = 0; p < order; ++p)
                        if (bits >> p & 1)
                            cell += (std::int64_t{set.values[at++]} - columns_.common(whole.attributes[p])) *
                                    strides[p];
                    made_.place_of_.push_back(place_of[cell]);
                }
                member.count += set.count;
            }
        }
    }

    const Columns& columns_;
    std::size_t attributes_;
    Effects made_;
    std::vector<Node> nodes_;                                      // by set
    std::map<std::vector<std::uint32_t>, std::uint32_t> numbers_;  // of sets, by their attributes
    std::size_t cells_ = 0;                                        // of all sets
    std::vector<std::uint32_t> numbers_of_cells_;  // the effects, by cell of a set; absent where no row is
    std::vector<std::size_t> starts_;              // one per row, and the end
    std::vector<std::uint32_t> effects_;           // of each row, as they were found
    const std::uint32_t* row_ = nullptr;           // the codes of one row
    std::vector<std::uint32_t> row_cells_;         // of its effects
    std::vector<std::uint32_t> uncommon_;          // its attributes of uncommon values
    std::vector<std::uint8_t> is_uncommon_;        // by attribute
    std::vector<std::uint32_t> asked_;             // attributes that are in a set, ascending
    std::vector<std::size_t> singles_;             // by attribute: the set of it alone
    std::vector<PairSet> pairs_;                   // by two attributes
    std::vector<std::vector<Larger>> larger_;      // by their first attribute
};

std::optional<Effects> Effects::of(const Columns& columns, const MarginalList& workload,
                                   std::span<const std::int64_t> places, std::size_t most_bytes) {
    Builder builder(columns, workload);
    if (!builder.list_rows(most_bytes)) return std::nullopt;
    return builder.finish(places);
}

std::size_t Effects::bytes() const {
    std::size_t total =
        lists_.low.size() * sizeof lists_.low[0] + lists_.high.size() * sizeof lists_.high[0] +
        2 * lists_.low_starts.size() * sizeof lists_.low_starts[0] + place_of_.size() * sizeof place_of_[0];
    for (const Set& set : sets_)
        total +=
            (set.values.size() + set.parents.size() * set.count + set.ends.size()) * sizeof(std::uint32_t);
    return total;
}

std::vector<double> Effects::by_cell(const double* prices) const {
    std::vector<double> found(place_of_.size());
    for (std::size_t i = 0; i < found.size(); ++i)
        found[i] = place_of_[i] == absent ? 0 : prices[place_of_[i]];
    return found;
}

template <class Sweep>
const Wrapping* Effects::add_up(std::vector<std::vector<Wrapping>>& storage, std::size_t items, int threads,
                                Sweep&& sweep) const {
    const auto tasks = std::max<std::size_t>(1, std::min<std::size_t>(threads, items));
    if (storage.size() < tasks) storage.resize(tasks);
    for_each_task(static_cast<std::int64_t>(tasks), threads, [&](std::int64_t t) {
        storage[t].assign(count_, 0);
        sweep(items * t / tasks, items * (t + 1) / tasks, storage[t].data());
    });
    for (std::size_t t = 1; t < tasks; ++t)
        for (std::size_t i = 0; i < count_; ++i) storage[0][i] += storage[t][i];
    return storage[0].data();
}

namespace {

// Kept from call to call: fits make hundreds, and fresh pages cost more than what is written to them.
thread_local std::vector<std::vector<Wrapping>> value_storage, sum_storage;

}  // namespace

Effects::Starts Effects::starts_of(const Member& member, Wrapping* cells) const {
    Starts at;
    for (std::size_t bits = 0; bits < member.sets.size(); ++bits) {
        at[bits] = cells;
        cells += sets_[member.sets[bits]].count;
    }
    return at;
}

void Effects::take_common(const Member& member, const Starts& at) const {
    // Attribute by attribute, what its uncommon values add to its common one.
    for (std::size_t bit = 1; bit < member.sets.size(); bit <<= 1)
        for (std::size_t bits = bit; bits < member.sets.size(); ++bits) {
            if (!(bits & bit)) continue;
            const Set& set = sets_[member.sets[bits]];
            Wrapping* const own = at[bits];
            const Wrapping* const common = at[bits ^ bit];
            if (const std::size_t p = std::popcount(bits & (bit - 1)); p < set.parents.size()) {
                const std::uint32_t* const parents = set.parents[p].data();
                for (std::size_t i = 0; i < set.count; ++i) own[i] -= common[parents[i]];
            } else {
                std::size_t i = 0;
                for (std::size_t parent = 0; parent < set.ends.size(); ++parent)
                    for (; i < set.ends[parent]; ++i) own[i] -= common[parent];
            }
        }
}

void Effects::give_common(const Member& member, const Starts& at) const {
    for (std::size_t bit = 1; bit < member.sets.size(); bit <<= 1)
        for (std::size_t bits = bit; bits < member.sets.size(); ++bits) {
            if (!(bits & bit)) continue;
            const Set& set = sets_[member.sets[bits]];
            const Wrapping* const own = at[bits];
            Wrapping* const common = at[bits ^ bit];
            if (const std::size_t p = std::popcount(bits & (bit - 1)); p < set.parents.size()) {
                const std::uint32_t* const parents = set.parents[p].data();
                for (std::size_t i = 0; i < set.count; ++i) common[parents[i]] -= own[i];
            } else {
                std::size_t i = 0;
                for (std::size_t parent = 0; parent < set.ends.size(); ++parent) {
                    Wrapping sum = 0;
                    for (; i < set.ends[parent]; ++i) sum += own[i];
                    common[parent] -= sum;
                }
            }
        }
}

const Wrapping* Effects::sum_effects(std::span<const Row> rows, const Mass* masses, int threads) const {
    return add_up(sum_storage, rows.size(), threads, [&](std::size_t begin, std::size_t end, Wrapping* sums) {
        effect_sweeps().sum(lists_, rows.subspan(begin, end - begin), masses + begin, sums);
    });
}

void Effects::gather_effects(std::span<const Row> rows, const Wrapping* effects, int exponent, int threads,
                             double* potentials) const {
    const auto tasks = std::max<std::size_t>(1, std::min<std::size_t>(threads, rows.size()));
    for_each_task(static_cast<std::int64_t>(tasks), threads, [&](std::int64_t t) {
        const std::size_t begin = rows.size() * t / tasks, end = rows.size() * (t + 1) / tasks;
        effect_sweeps().potentials(lists_, rows.subspan(begin, end - begin), effects, PowerOfTwo(exponent),
                                   potentials + begin);
    });
}

void Effects::potentials(std::span<const Row> rows, const std::int64_t* values, int exponent, int threads,
                         double* potentials) const {
    const auto add_marginals = [&](std::size_t begin, std::size_t end, Wrapping* effects) {
        std::vector<Wrapping> cells;
        for (std::size_t j = begin; j < end; ++j) {
            const Member& member = members_[j];
            cells.resize(member.count);
            const auto at = starts_of(member, cells.data());
            const std::uint32_t* const place = place_of_.data() + member.first;
            for (std::size_t i = 0; i < member.count; ++i)
                cells[i] = place[i] == absent ? 0 : static_cast<Wrapping>(values[place[i]]);
            take_common(member, at);
            for (std::size_t bits = 0; bits < member.sets.size(); ++bits) {
                const Set& set = sets_[member.sets[bits]];
                for (std::size_t i = 0; i < set.count; ++i) effects[set.first + i] += at[bits][i];
            }
        }
    };
    const Wrapping* const effects = add_up(value_storage, members_.size(), threads, add_marginals);
    gather_effects(rows, effects, exponent, threads, potentials);
}

void Effects::sum(std::span<const Row> rows, const Mass* masses, int threads, Mass* sums) const {
    const Wrapping* const effects = sum_effects(rows, masses, threads);
    std::fill_n(sums, places_, 0);
    const auto tasks = std::max<std::size_t>(1, std::min<std::size_t>(threads, members_.size()));
    for_each_task(static_cast<std::int64_t>(tasks), threads, [&](std::int64_t t) {
        std::vector<Wrapping> cells;
        for (std::size_t j = members_.size() * t / tasks; j < members_.size() * (t + 1) / tasks; ++j) {
            const Member& member = members_[j];
            cells.resize(member.count);
            const auto at = starts_of(member, cells.data());
            for (std::size_t bits = 0; bits < member.sets.size(); ++bits) {
                const Set& set = sets_[member.sets[bits]];
                std::copy_n(effects + set.first, set.count, at[bits]);
            }
            give_common(member, at);
            const std::uint32_t* const place = place_of_.data() + member.first;
            for (std::size_t i = 0; i < member.count; ++i)
                if (place[i] != absent) sums[place[i]] = static_cast<Mass>(cells[i]);
        }
    });
}

void Effects::spread(std::span<const Row> rows, const Mass* masses, const double* prices, int unit,
                     int exponent, int threads, double* potentials) const {
    const Wrapping* const sums = sum_effects(rows, masses, threads);
    const PowerOfTwo down(-unit);
    const auto add_marginals = [&](std::size_t begin, std::size_t end, Wrapping* effects) {
        std::vector<Wrapping> cells;
        for (std::size_t j = begin; j < end; ++j) {
            const Member& member = members_[j];
            cells.resize(member.count);
            const auto at = starts_of(member, cells.data());
            for (std::size_t bits = 0; bits < member.sets.size(); ++bits) {
                const Set& set = sets_[member.sets[bits]];
                std::copy_n(sums + set.first, set.count, at[bits]);
            }
            give_common(member, at);
            const double* const price = prices + member.first;
            for (std::size_t i = 0; i < member.count; ++i)
                cells[i] = rounded(down * (to_double(cells[i]) * price[i]));
            take_common(member, at);
            for (std::size_t bits = 0; bits < member.sets.size(); ++bits) {
                const Set& set = sets_[member.sets[bits]];
                for (std::size_t i = 0; i < set.count; ++i) effects[set.first + i] += at[bits][i];
            }
        }
    };
    gather_effects(rows, add_up(value_storage, members_.size(), threads, add_marginals), exponent, threads,
                   potentials);
}

}  // namespace privmw
