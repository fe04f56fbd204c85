#include "core/products/products.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "core/parallel.hpp"
#include "core/products/tiles.hpp"

namespace privmw {

namespace {

constexpr std::size_t chunk_panels = 16;  // of a row of tables in answers, at most: 1 KB
constexpr std::size_t block_rows = 16;    // combinations at once in answers: 16 KB, half a first-level cache
constexpr std::size_t task_rows = 64;     // combinations of a task in answers
constexpr std::size_t panel_block = 48;   // combinations at once in a gradient

// The values of the others, of one combination after the other.
struct Combination {
    std::uint32_t values[5] = {};
    template <class Group>
    Combination(const Group& group, std::size_t row) {
        for (std::size_t f = group.others; f-- > 0; row /= group.sizes[f])
            values[f] = static_cast<std::uint32_t>(row % group.sizes[f]);
    }
};

// out[.] = weights[.] times the rows of the tables that a combination means; `length` numbers each.
template <class T, class Group>
void multiply_tables(const Group& group, std::size_t row, const T* tables, const T* weights,
                     std::size_t length, T* out) {
    const Combination combination(group, row);
    std::copy_n(weights, length, out);
    for (std::size_t f = 0; f < group.others; ++f) {
        const T* const factor = tables + (group.first_rows[f] + combination.values[f]) * length;
        for (std::size_t k = 0; k < length; ++k) out[k] *= factor[k];
    }
}

// Columns [begin, begin + length) of the caller's tables in this order of rows; 0 beyond their end.
template <class T>
void copy_columns(const T* tables, const std::vector<std::size_t>& source, std::size_t products,
                  std::size_t begin, std::size_t length, T* out) {
    const std::size_t count = std::min(length, products - begin);
    for (const std::size_t row : source) {
        std::fill(std::copy_n(tables + row * products + begin, count, out), out + length, T(0));
        out += length;
    }
}

// The rows of the hubs: in place where they are adjacent, else a copy.
template <class T, class Group>
const T* hubs_of(const Group& group, const T* tables, std::size_t length, std::vector<T>& copy) {
    if (group.adjacent) return tables + group.hub_rows[0] * length;
    copy.resize(group.hub_rows.size() * length);
    for (std::size_t i = 0; i < group.hub_rows.size(); ++i)
        std::copy_n(tables + group.hub_rows[i] * length, length, copy.data() + i * length);
    return copy.data();
}

}  // namespace

Products::Products(const std::vector<std::uint32_t>& sizes, const MarginalList& workload) {
    // Attributes by size: the largest of a marginal is its hub, which leaves the fewest combinations, and the
    // hubs of a group are often adjacent.
    std::vector<std::uint32_t> order(sizes.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return sizes[a] < sizes[b]; });
    std::vector<std::size_t> rank(sizes.size()), first_row(sizes.size()), first_source(sizes.size() + 1, 0);
    for (std::size_t a = 0; a < sizes.size(); ++a) first_source[a + 1] = first_source[a] + sizes[a];
    for (std::size_t i = 0; i < order.size(); ++i) {
        const std::uint32_t a = order[i];
        rank[a] = i;
        first_row[a] = source_.size();
        for (std::size_t v = 0; v < sizes[a]; ++v) source_.push_back(first_source[a] + v);
    }
    width_ = source_.size();

    std::map<std::vector<std::uint32_t>, std::size_t> places;
    for (std::size_t j = 0; j + 1 < workload.starts.size(); ++j) {
        std::vector<std::uint32_t> attributes(workload.attributes.begin() + workload.starts[j],
                                              workload.attributes.begin() + workload.starts[j + 1]);
        std::map<std::uint32_t, std::size_t> strides;
        std::size_t count = 1;
        for (std::size_t i = attributes.size(); i-- > 0; count *= sizes[attributes[i]])
            strides[attributes[i]] = count;
        std::sort(attributes.begin(), attributes.end(), [&](auto a, auto b) { return rank[a] < rank[b]; });
        const std::uint32_t hub = attributes.back();
        attributes.pop_back();
        const auto [place, is_new] = places.emplace(attributes, groups_.size());
        if (is_new) {
            Group group;
            group.others = static_cast<std::uint32_t>(attributes.size());
            for (std::size_t f = 0; f < attributes.size(); ++f) {
                group.sizes[f] = sizes[attributes[f]];
                group.first_rows[f] = first_row[attributes[f]];
                group.rows *= group.sizes[f];
            }
            groups_.push_back(std::move(group));
        }
        Group& group = groups_[place->second];
        Member member{cells_, sizes[hub], strides[hub], {}};
        for (std::size_t f = 0; f < attributes.size(); ++f) member.strides[f] = strides[attributes[f]];
        group.members.push_back(member);
        for (std::size_t v = 0; v < sizes[hub]; ++v) group.hub_rows.push_back(first_row[hub] + v);
        cells_ += count;
    }
    std::size_t start = 0;
    for (Group& group : groups_) {
        group.start = start;
        start += group.rows * group.hub_rows.size();
        for (std::size_t i = 1; i < group.hub_rows.size(); ++i)
            group.adjacent &= group.hub_rows[i] == group.hub_rows[i - 1] + 1;
    }
}

// Calls visit(first cell, cells apart, values) for each member's cells of a combination, in their order.
template <class Visit>
void Products::for_each_run(const Group& group, std::size_t row, Visit&& visit) {
    const Combination combination(group, row);
    for (const Member& member : group.members) {
        std::size_t cell = member.cell;
        for (std::size_t f = 0; f < group.others; ++f) cell += combination.values[f] * member.strides[f];
        visit(cell, member.hub_stride, member.hub_size);
    }
}

template <class T>
void Products::answers(const T* tables, const T* weights, std::size_t products, T* answers,
                       int threads) const {
    const std::size_t panels = (products + panel<T> - 1) / panel<T>;
    const std::size_t chunks = (panels + chunk_panels - 1) / chunk_panels;  // of nearly the same length
    const std::size_t chunk = (panels + chunks - 1) / chunks * panel<T>;
    std::vector<T> ordered(chunks * chunk * width_), padded_weights(chunks * chunk);
    std::copy_n(weights, products, padded_weights.begin());
    for_each_task(static_cast<std::int64_t>(chunks), threads, [&](std::int64_t c) {
        const std::size_t begin = static_cast<std::size_t>(c) * chunk;
        copy_columns(tables, source_, products, begin, chunk, ordered.data() + begin * width_);
    });
    struct Task {
        const Group* group;
        std::size_t begin, end;
    };
    std::vector<Task> tasks;
    for (const Group& group : groups_)
        for (std::size_t row = 0; row < group.rows; row += task_rows)
            tasks.push_back({&group, row, std::min(row + task_rows, group.rows)});
    for_each_task(static_cast<std::int64_t>(tasks.size()), threads, [&](std::int64_t t) {
        const auto& [group, begin, end] = tasks[static_cast<std::size_t>(t)];
        const std::size_t columns = group->hub_rows.size();
        std::vector<T> sums((end - begin) * columns), combined(block_rows * chunk), copy;
        for (std::size_t c = 0; c < chunks; ++c) {
            const T* const here = ordered.data() + c * chunk * width_;
            const T* const hubs = hubs_of(*group, here, chunk, copy);
            for (std::size_t row = begin; row < end; row += block_rows) {
                const std::size_t rows = std::min(block_rows, end - row);
                for (std::size_t i = 0; i < rows; ++i)
                    multiply_tables(*group, row + i, here, padded_weights.data() + c * chunk, chunk,
                                    combined.data() + i * chunk);
                tiles<T>().dots(combined.data(), rows, hubs, columns, chunk,
                                sums.data() + (row - begin) * columns, columns);
            }
        }
        const T* sum = sums.data();
        for (std::size_t row = begin; row < end; ++row)
            for_each_run(*group, row, [&](std::size_t cell, std::size_t stride, std::size_t values) {
                for (std::size_t v = 0; v < values; ++v) answers[cell + v * stride] = *sum++;
            });
    });
}

// pull: OUT, a row of derivatives for each combination that has any; used: OUT, these combinations.
template <class T>
void Products::gather(const Group& group, const T* by_cell, T* pull, std::vector<std::size_t>& used) const {
    for (std::size_t row = 0; row < group.rows; ++row) {
        T* to = pull + used.size() * group.hub_rows.size();
        bool any = false;
        for_each_run(group, row, [&](std::size_t cell, std::size_t stride, std::size_t values) {
            for (std::size_t v = 0; v < values; ++v) {
                *to = by_cell[cell + v * stride];
                any |= *to++ != 0;
            }
        });
        if (any) used.push_back(row);
    }
}

template <class T>
void Products::gradient(const T* tables, const T* weights, const T* by_cell, std::size_t products,
                        T* by_tables, T* by_weights, int threads) const {
    std::vector<T> pull(cells_);
    std::vector<std::vector<std::size_t>> used(groups_.size());
    for_each_task(static_cast<std::int64_t>(groups_.size()), threads, [&](std::int64_t g) {
        const Group& group = groups_[static_cast<std::size_t>(g)];
        gather(group, by_cell, pull.data() + group.start, used[static_cast<std::size_t>(g)]);
    });
    constexpr std::size_t length = panel<T>;
    const std::size_t panels = (products + length - 1) / length;
    // Every panel of products is one task with its own derivatives: threads add nothing together.
    for_each_task(static_cast<std::int64_t>(panels), threads, [&](std::int64_t p) {
        const std::size_t begin = static_cast<std::size_t>(p) * length;
        const std::size_t count = std::min(length, products - begin);
        std::vector<T> here(width_ * length), by_here(width_ * length), copy, by_copy;
        std::vector<T> combined(panel_block * length), by_combined(panel_block * length);
        T weight[length] = {}, by_weight[length] = {};
        std::copy_n(weights + begin, count, weight);
        copy_columns(tables, source_, products, begin, length, here.data());
        for (std::size_t g = 0; g < groups_.size(); ++g) {
            const Group& group = groups_[g];
            if (used[g].empty()) continue;
            const std::size_t columns = group.hub_rows.size();
            const T* const hubs = hubs_of(group, here.data(), length, copy);
            T* by_hubs = by_here.data() + group.hub_rows[0] * length;
            if (!group.adjacent) {
                by_copy.assign(columns * length, T(0));
                by_hubs = by_copy.data();
            }
            for (std::size_t first = 0; first < used[g].size(); first += panel_block) {
                const std::size_t rows = std::min(panel_block, used[g].size() - first);
                const T* const factors = pull.data() + group.start + first * columns;
                for (std::size_t i = 0; i < rows; ++i)
                    multiply_tables(group, used[g][first + i], here.data(), weight, length,
                                    combined.data() + i * length);
                std::fill_n(by_combined.begin(), rows * length, T(0));
                tiles<T>().combine(factors, columns, 1, rows, columns, hubs, by_combined.data());
                tiles<T>().combine(factors, 1, columns, columns, rows, combined.data(), by_hubs);
                for (std::size_t i = 0; i < rows; ++i) {
                    const Combination combination(group, used[g][first + i]);
                    const T* const by = by_combined.data() + i * length;
                    for (std::size_t f = 0; f <= group.others; ++f) {  // the last is the weight
                        T product[length];
                        std::copy_n(by, length, product);
                        for (std::size_t o = 0; o < group.others; ++o) {
                            if (o == f) continue;
                            const T* const factor =
                                here.data() + (group.first_rows[o] + combination.values[o]) * length;
                            for (std::size_t k = 0; k < length; ++k) product[k] *= factor[k];
                        }
                        if (f == group.others) {
                            for (std::size_t k = 0; k < length; ++k) by_weight[k] += product[k];
                        } else {
                            T* const to =
                                by_here.data() + (group.first_rows[f] + combination.values[f]) * length;
                            for (std::size_t k = 0; k < length; ++k) to[k] += product[k] * weight[k];
                        }
                    }
                }
            }
            if (!group.adjacent)
                for (std::size_t i = 0; i < columns; ++i)
                    for (std::size_t k = 0; k < length; ++k)
                        by_here[group.hub_rows[i] * length + k] += by_copy[i * length + k];
        }
        for (std::size_t row = 0; row < width_; ++row)
            std::copy_n(by_here.data() + row * length, count, by_tables + source_[row] * products + begin);
        std::copy_n(by_weight, count, by_weights + begin);
    });
}

template void Products::answers(const float*, const float*, std::size_t, float*, int) const;
template void Products::answers(const double*, const double*, std::size_t, double*, int) const;
template void Products::gradient(const float*, const float*, const float*, std::size_t, float*, float*,
                                 int) const;
template void Products::gradient(const double*, const double*, const double*, std::size_t, double*, double*,
                                 int) const;

}  // namespace privmw
