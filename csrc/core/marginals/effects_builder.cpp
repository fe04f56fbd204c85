// Finds the sets of attributes with effects, their carriers, and the effects that each row lists.
#include <algorithm>
#include <array>
#include <bit>
#include <map>

#include "core/marginals/effects.hpp"

namespace privmw {

namespace {

constexpr std::uint32_t absent = 0xffffffff;
constexpr std::size_t choosing_rows = 4096;  // sampled to choose carriers
constexpr std::uint32_t low_end = 0x10000;   // of the numbers in two bytes

}  // namespace

// Finds the sets, and lists the effects of row after row.
class Effects::Builder {
  public:
    Builder(const Columns& columns, const MarginalList& workload)
        : columns_(columns), attributes_(columns.attributes()) {
        struct Use {
            std::size_t times = 0;
            bool whole = false;
        };
        std::map<std::vector<std::uint32_t>, Use> uses;
        const auto subset = [&](std::size_t j, std::size_t bits) {
            std::vector<std::uint32_t> chosen;
            for (std::size_t p = workload.starts[j]; p < workload.starts[j + 1]; ++p, bits >>= 1)
                if (bits & 1) chosen.push_back(workload.attributes[p]);
            return chosen;
        };
        const auto subsets = [&](std::size_t j) {
            return std::size_t{1} << (workload.starts[j + 1] - workload.starts[j]);
        };
        uses[{}] = {2, false};
        for (std::size_t j = 0; j < workload.size(); ++j)
            for (std::size_t bits = 0; bits < subsets(j); ++bits) {
                Use& use = uses[subset(j, bits)];
                ++use.times;
                use.whole |= bits + 1 == subsets(j);
            }
        // The sets, shorter ones first, and after all others those that are the whole of one marginal alone.
        std::map<std::size_t, std::vector<const std::vector<std::uint32_t>*>> in_order;
        for (const auto& [attributes, use] : uses) {
            const bool own = use.whole && use.times == 1;
            in_order[own ? EffectSets::most_attributes + 1 : attributes.size()].push_back(&attributes);
            shared_sets_ += !own;
        }
        for (const auto& [order, some] : in_order)
            for (const auto* attributes : some) {
                numbers_.emplace(*attributes, static_cast<std::uint32_t>(nodes_.size()));
                nodes_.push_back({*attributes, cells_, {}, 0, static_cast<std::uint32_t>(attributes_)});
                std::size_t cells = 1;
                for (std::uint32_t a : *attributes) cells *= columns.column(a).size;
                if (attributes->size() == 1) in_a_set_.push_back(attributes->front());
                cells_ += cells;
            }
        EffectSets& sets = made_.sets_;
        sets.sets.resize(nodes_.size());
        for (std::size_t j = 0; j < workload.size(); ++j) {
            EffectSets::Member member;
            member.subsets = sets.subsets.size();
            member.order = workload.starts[j + 1] - workload.starts[j];
            sets.members.push_back(member);
            for (std::size_t bits = 0; bits < subsets(j); ++bits)
                sets.subsets.push_back(numbers_.at(subset(j, bits)));
        }
    }

    // Finds the listed effects of rows. False if they are too many.
    bool find_listed(std::size_t most_bytes) {
        if (std::max(cells_, choose_carriers()) * sizeof(std::uint32_t) > most_bytes) return false;
        numbers_of_cells_.assign(cells_, absent);
        numbers_of_cells_[0] = 0;
        lengths_.assign(columns_.rows(), 0);
        for (Rows rows(*this); rows.next();) {
            rows.visit([&](std::size_t row, std::size_t cell) {
                numbers_of_cells_[cell] = 0;
                ++lengths_[rows.first + row];
            });
            for (std::size_t row = rows.first; row < rows.last; ++row) listed_ += lengths_[row];
            if (listed_ * sizeof(std::uint32_t) > most_bytes) return false;
        }
        return true;
    }

    Effects finish(std::span<const std::int64_t> places) {
        find_carried();
        number_effects();
        list_rows();
        for (std::size_t s = 1; s < nodes_.size(); ++s) find_parents(s);
        find_places(places);
        return std::move(made_);
    }

  private:
    // A set while its effects are being found.
    struct Node {
        std::vector<std::uint32_t> attributes;  // ascending
        std::size_t first = 0;                  // of its cells among those of all sets
        std::vector<std::uint32_t> values;      // of its attributes: effects x order
        std::size_t carrier = 0;                // its carrier, if not 0
        std::uint32_t more = 0;  // the additional attribute of the carrier, or the number of attributes
    };

    // Rows, some at a time.
    class Rows {
      public:
        explicit Rows(const Builder& builder)
            : builder_(builder),
              codes_(builder.attributes_ * most),
              uncommon_((builder.attributes_ + 1) * words) {}

        bool next() {
            const Columns& columns = builder_.columns_;
            first = last;
            last = std::min(columns.rows(), first + most);
            std::ranges::fill(uncommon_, 0);
            for (std::uint32_t a : builder_.in_a_set_) {
                std::uint32_t* const codes = codes_.data() + a * most;
                with_codes(columns.column(a),
                           [&](const auto* column) { std::copy(column + first, column + last, codes); });
                set_bits(last - first, uncommon_.data() + a * words,
                         [&, common = columns.common(a)](std::size_t row) { return codes[row] != common; });
            }
            return first < last;
        }

        // Calls use(row, cell) for the cells of the effects that each of the rows lists, set by set.
        template <class Use>
        void visit(Use&& use) const {
            for (std::size_t s = 1; s < builder_.nodes_.size(); ++s) {
                const Node& node = builder_.nodes_[s];
                switch (node.attributes.size()) {
                    case 1:
                        visit_set<1>(node, use);
                        break;
                    case 2:
                        visit_set<2>(node, use);
                        break;
                    case 3:
                        visit_set<3>(node, use);
                        break;
                    case 4:
                        visit_set<4>(node, use);
                        break;
                    case 5:
                        visit_set<5>(node, use);
                        break;
                    default:
                        visit_set<6>(node, use);
                }
            }
        }

        std::size_t first = 0, last = 0;

      private:
        static constexpr std::size_t words = 16, most = 64 * words;

        template <std::size_t order, class Use>
        void visit_set(const Node& node, Use&& use) const {
            std::array<const std::uint32_t*, order> codes;
            std::array<const std::uint64_t*, order> uncommon;
            std::array<std::size_t, order> strides;
            std::size_t stride = 1;
            for (std::size_t p = order; p-- > 0;) {
                codes[p] = codes_.data() + node.attributes[p] * most;
                uncommon[p] = uncommon_.data() + node.attributes[p] * words;
                strides[p] = stride;
                stride *= builder_.columns_.column(node.attributes[p]).size;
            }
            const std::uint64_t* const carried = uncommon_.data() + node.more * words;
            for (std::size_t w = 0; w < words; ++w) {
                std::uint64_t listing = ~carried[w];
                for (std::size_t p = 0; p < order; ++p) listing &= uncommon[p][w];
                for (; listing; listing &= listing - 1) {
                    const std::size_t row = 64 * w + static_cast<std::size_t>(std::countr_zero(listing));
                    std::size_t cell = node.first;
                    for (std::size_t p = 0; p < order; ++p) cell += codes[p][row] * strides[p];
                    use(row, cell);
                }
            }
        }

        const Builder& builder_;
        std::vector<std::uint32_t> codes_;     // attribute by attribute
        std::vector<std::uint64_t> uncommon_;  // a bit for each row; and of no attribute, where none has it
    };

    // The carrier of a set is the one that most sampled rows have. Returns the approximate number of listed
    // effects.
    std::size_t choose_carriers() {
        const std::size_t step = columns_.rows() / choosing_rows + 1,
                          rows = (columns_.rows() + step - 1) / step;
        const std::size_t words = (rows + 63) / 64;
        std::vector<std::uint64_t> uncommon(attributes_ * words);  // of an attribute: a bit for each row
        for (std::uint32_t a : in_a_set_)
            with_codes(columns_.column(a), [&](const auto* column) {
                set_bits(rows, uncommon.data() + a * words,
                         [&, common = columns_.common(a)](std::size_t row) {
                             return column[row * step] != common;
                         });
            });
        std::size_t listed = 0;
        std::vector<std::size_t> most(nodes_.size());
        for (std::size_t s = 1; s < nodes_.size(); ++s) {
            const auto& attributes = nodes_[s].attributes;
            std::size_t has = 0;
            for (std::size_t w = 0; w < words; ++w) {
                std::uint64_t all = ~std::uint64_t{0};
                for (std::uint32_t a : attributes) all &= uncommon[a * words + w];
                has += static_cast<std::size_t>(std::popcount(all));
            }
            listed += has;
            for (std::size_t p = 0; attributes.size() > 1 && p < attributes.size(); ++p) {
                const std::uint32_t other = without(attributes, p);
                if (has <= most[other]) continue;
                listed -= has - most[other];
                most[other] = has;
                nodes_[other].carrier = s;
                nodes_[other].more = attributes[p];
            }
        }
        return step * listed;
    }

    // Bit i of words becomes is(i); bits after the last stay 0.
    template <class Is>
    static void set_bits(std::size_t count, std::uint64_t* words, Is&& is) {
        for (std::size_t first = 0; first < count; first += 64, ++words) {
            std::uint64_t word = 0;
            for (std::size_t bit = 0; bit < std::min<std::size_t>(64, count - first); ++bit)
                word |= std::uint64_t{is(first + bit)} << bit;
            *words = word;
        }
    }

    // A row with an effect has those that it carries.
    void find_carried() {
        EffectSets& sets = made_.sets_;
        for (std::size_t s = 1; s < nodes_.size(); ++s) {
            if (!nodes_[s].carrier) continue;
            const auto& by = nodes_[nodes_[s].carrier].attributes;
            const auto p = static_cast<std::size_t>(std::ranges::find(by, nodes_[s].more) - by.begin());
            sets.carried.push_back({static_cast<std::uint32_t>(s),
                                    static_cast<std::uint32_t>(nodes_[s].carrier),
                                    static_cast<std::uint32_t>(p), p + 1 == by.size()});
        }
        std::ranges::stable_sort(sets.carried, {}, [&](const EffectSets::Carried& carried) {
            return nodes_[carried.set].attributes.size();
        });
        for (std::size_t i = sets.carried.size(); i-- > 0;) {
            const auto [set, by, p, last] = sets.carried[i];
            std::size_t after = 1;
            for (std::size_t q = nodes_[by].attributes.size(); --q > p;)
                after *= columns_.column(nodes_[by].attributes[q]).size;
            const std::size_t size = columns_.column(nodes_[by].attributes[p]).size;
            const std::size_t before = cells_of(by) / after / size;
            const std::uint32_t* cell = numbers_of_cells_.data() + nodes_[by].first;
            for (std::size_t b = 0; b < before; ++b)
                for (std::size_t value = 0; value < size; ++value) {
                    std::uint32_t* const carried = numbers_of_cells_.data() + nodes_[set].first + b * after;
                    for (std::size_t c = 0; c < after; ++c) carried[c] &= *cell++;
                }
        }
    }

    // Number the effects set by set, in the order of cells, so that neighbours are adjacent.
    void number_effects() {
        std::size_t next = 0;
        for (std::size_t s = 0; s < nodes_.size(); ++s) {
            EffectSets::Set& set = made_.sets_.sets[s];
            if (s == 1) next = RowEffects::padding + 1;
            if (s == shared_sets_) made_.sets_.shared = next;
            set.first = next;
            std::uint32_t* const numbers = numbers_of_cells_.data() + nodes_[s].first;
            for (std::size_t i = 0; i < cells_of(s); ++i)
                if (numbers[i] != absent) numbers[i] = static_cast<std::uint32_t>(next++);
            set.count = next - set.first;
        }
        made_.count_ = std::max<std::size_t>(next, RowEffects::padding + 1);
        if (shared_sets_ == nodes_.size()) made_.sets_.shared = made_.count_;
    }

    void list_rows() {
        RowEffects& lists = made_.lists_;
        const std::size_t most = listed_ + (RowEffects::step - 1) * lengths_.size() + 1;
        lists.low_starts.reserve(lengths_.size() + 1);
        lists.high_starts.reserve(lengths_.size() + 1);
        lists.low.resize(most);
        lists.high.resize(made_.count_ > low_end ? most : 1);
        std::size_t low = 0, high = 0;
        const auto fill_up = [](auto& list, std::size_t& end) {
            for (; end % RowEffects::step; ++end) list[end] = RowEffects::padding;
        };
        std::vector<std::uint32_t> effects;  // of some rows
        std::vector<std::size_t> ends;
        for (Rows rows(*this); rows.next();) {
            ends.assign(1, 0);
            for (std::size_t row = rows.first; row < rows.last; ++row)
                ends.push_back(ends.back() + lengths_[row]);
            effects.resize(ends.back());
            rows.visit(
                [&](std::size_t row, std::size_t cell) { effects[ends[row]++] = numbers_of_cells_[cell]; });
            std::size_t at = 0;
            for (std::size_t row = 0; row < rows.last - rows.first; ++row) {
                for (; at < ends[row]; ++at) {
                    lists.low[low] = static_cast<std::uint16_t>(effects[at]);
                    lists.high[high] = effects[at];
                    low += effects[at] < low_end;
                    high += effects[at] >= low_end;
                }
                fill_up(lists.low, low);
                fill_up(lists.high, high);
                lists.low_starts.push_back(static_cast<std::int64_t>(low));
                lists.high_starts.push_back(static_cast<std::int64_t>(high));
            }
        }
        lists.low.resize(low);
        lists.high.resize(high);
    }

    std::uint32_t without(const std::vector<std::uint32_t>& attributes, std::size_t p) const {
        auto rest = attributes;
        rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(p));
        return numbers_.at(rest);
    }

    std::size_t cells_of(std::size_t s) const {
        return (s + 1 < nodes_.size() ? nodes_[s + 1].first : cells_) - nodes_[s].first;
    }

    void find_parents(std::size_t s) {
        const Node& node = nodes_[s];
        EffectSets& sets = made_.sets_;
        EffectSets::Set& set = sets.sets[s];
        const std::size_t order = node.attributes.size();
        std::size_t cells = 1;
        std::vector<std::size_t> sizes;
        std::vector<std::pair<const std::uint32_t*, std::size_t>> parents;  // its effects by cell, the first
        for (std::size_t p = 0; p < order; ++p) {
            sizes.push_back(columns_.column(node.attributes[p]).size);
            cells *= sizes[p];
            const std::uint32_t other = without(node.attributes, p);
            parents.emplace_back(numbers_of_cells_.data() + nodes_[other].first, sets.sets[other].first);
            set.groups = sets.sets[other].count;  // in the end, without the last
        }
        set.parents = sets.parents.size();
        set.ends = sets.ends.size();
        sets.parents.resize(set.parents + order * set.count);
        sets.ends.resize(set.ends + set.groups);
        nodes_[s].values.reserve(set.count * order);
        std::uint32_t* const ends = sets.ends.data() + set.ends;
        std::size_t i = 0;
        for (std::size_t cell = 0; i < set.count; ++cell) {
            if (numbers_of_cells_[node.first + cell] == absent) continue;
            std::size_t after = cells, left = cell, parent = 0;
            for (std::size_t p = 0; p < order; ++p) {
                const std::size_t before = cell / after;
                after /= sizes[p];
                nodes_[s].values.push_back(static_cast<std::uint32_t>(left / after));
                left %= after;
                const auto [numbers, first] = parents[p];
                parent = numbers[before * after + left] - first;
                sets.parents[set.parents + p * set.count + i] = static_cast<std::uint32_t>(parent);
            }
            ends[parent] = static_cast<std::uint32_t>(++i);
        }
        for (std::size_t parent = 1; parent < set.groups; ++parent)
            ends[parent] = std::max(ends[parent], ends[parent - 1]);
    }

    void find_places(std::span<const std::int64_t> places) {
        EffectSets& sets = made_.sets_;
        sets.cell_of.resize(places.size());
        std::vector<std::uint32_t> cell_of;  // by cell of the marginal
        std::int64_t first_cell = 0;
        std::size_t next = 0;
        for (EffectSets::Member& member : sets.members) {
            const std::uint32_t* const subsets = sets.subsets.data() + member.subsets;
            const std::size_t bits_end = std::size_t{1} << member.order;
            const auto& attributes = nodes_[subsets[bits_end - 1]].attributes;
            std::array<std::int64_t, EffectSets::most_attributes> strides{};
            std::int64_t cells = 1, common = 0;
            for (std::size_t p = member.order; p-- > 0;) {
                strides[p] = cells;
                common += columns_.common(attributes[p]) * cells;
                cells *= columns_.column(attributes[p]).size;
            }
            member.first = made_.cells_;
            for (std::size_t bits = 0; bits < bits_end; ++bits)
                member.count += sets.sets[subsets[bits]].count;
            made_.cells_ += member.count;
            sets.most = std::max(sets.most, member.count);
            cell_of.assign(static_cast<std::size_t>(cells), static_cast<std::uint32_t>(member.count));
            std::uint32_t found = 0;
            for (std::size_t bits = 0; bits < bits_end; ++bits) {
                const std::uint32_t* value = nodes_[subsets[bits]].values.data();
                for (std::size_t i = 0; i < sets.sets[subsets[bits]].count; ++i) {
                    std::int64_t cell = common;
                    for (std::size_t p = 0; p < member.order; ++p)
                        if (bits >> p & 1)
                            cell += (std::int64_t{*value++} - columns_.common(attributes[p])) * strides[p];
                    cell_of[cell] = found++;
                }
            }
            member.first_place = next;
            for (; next < places.size() && places[next] < first_cell + cells; ++next)
                sets.cell_of[next] = cell_of[places[next] - first_cell];
            member.last_place = next;
            first_cell += cells;
        }
    }

    const Columns& columns_;
    std::size_t attributes_;
    Effects made_;
    std::vector<Node> nodes_;                                      // by set
    std::size_t shared_sets_ = 0;                                  // the first, of several marginals or parts
    std::map<std::vector<std::uint32_t>, std::uint32_t> numbers_;  // of sets, by their attributes
    std::size_t cells_ = 0;                                        // of all sets
    std::vector<std::uint32_t> numbers_of_cells_;  // the effects, by cell of a set; absent where no row is
    std::size_t listed_ = 0;                       // effects, of all rows
    std::vector<std::uint32_t> in_a_set_;          // attributes
    std::vector<std::uint32_t> lengths_;           // of the list of each row
};

std::optional<Effects> Effects::of(const Columns& columns, const MarginalList& workload,
                                   std::span<const std::int64_t> places, std::size_t most_bytes) {
    Builder builder(columns, workload);
    if (!builder.find_listed(most_bytes)) return std::nullopt;
    return builder.finish(places);
}

}  // namespace privmw
