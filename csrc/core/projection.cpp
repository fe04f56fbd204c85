#include "core/projection.hpp"

#include <algorithm>
#include <array>

#include "core/parallel.hpp"

namespace privmw {

namespace {

constexpr std::size_t groups_block = 4096;  // groups of a task
constexpr std::size_t square = 32;    // queries a side: a piece of the matrix that is mirrored within L1
constexpr std::size_t code_bits = 6;  // queries whose answers are one code: a table of two codes stays in L1
constexpr std::size_t code_values = std::size_t{1} << code_bits;
constexpr std::size_t tables_together = 3;  // that one pass over the groups adds to

using CodeTable = std::array<double, code_values * code_values>;

// Adds each group's weight to the cell of its two codes, for several second codes at once: neighbouring
// groups often have the same cell, which would stall.
template <std::size_t many>
void add_to_tables(const double* weights, const std::uint8_t* first, const std::uint8_t* const* second,
                   std::size_t groups, CodeTable* tables) {
    for (std::size_t g = 0; g < groups; ++g) {
        const std::size_t row = first[g] * code_values;
        for (std::size_t k = 0; k < many; ++k) tables[k][row + second[k][g]] += weights[g];
    }
}

}  // namespace

void split_starts(std::span<const std::int64_t> starts, const AddedQueries& added, std::int64_t* new_starts) {
    std::int64_t* const lengths = new_starts + 1;
    std::size_t groups = starts.size() - 1;
    for (std::size_t g = 0; g < groups; ++g) lengths[g] = starts[g + 1] - starts[g];
    for (std::size_t q = 0; q < added.size(); ++q) {
        for (std::int64_t i = added.matched_starts[q]; i < added.matched_starts[q + 1]; ++i)
            ++lengths[added.matched[i]];
        for (std::int64_t i = added.cut_starts[q]; i < added.cut_starts[q + 1]; ++i)
            lengths[groups++] = lengths[added.cut[i]] + 1;
    }
    new_starts[0] = 0;
    for (std::size_t g = 0; g < groups; ++g) lengths[g] += new_starts[g];
}

void split_lists(std::span<const std::int64_t> starts, const std::uint32_t* queries,
                 const AddedQueries& added, std::uint32_t first, std::span<const std::int64_t> new_starts,
                 std::uint32_t* new_queries) {
    std::vector<std::int64_t> ends(new_starts.begin(), new_starts.end() - 1);  // of the lists so far
    std::size_t groups = starts.size() - 1;
    const auto append = [&](std::size_t g, const std::uint32_t* from, std::int64_t count) {
        std::copy_n(from, count, new_queries + ends[g]);
        ends[g] += count;
    };
    for (std::size_t g = 0; g < groups; ++g) append(g, queries + starts[g], starts[g + 1] - starts[g]);
    for (std::size_t q = 0; q < added.size(); ++q) {
        const std::uint32_t query = first + static_cast<std::uint32_t>(q);
        for (std::int64_t i = added.matched_starts[q]; i < added.matched_starts[q + 1]; ++i)
            new_queries[ends[added.matched[i]]++] = query;
        for (std::int64_t i = added.cut_starts[q]; i < added.cut_starts[q + 1]; ++i, ++groups) {
            const std::int64_t parent = added.cut[i];
            append(groups, new_queries + new_starts[parent], ends[parent] - new_starts[parent]);
            append(groups, &query, 1);
        }
    }
}

std::size_t Incidence::bytes() const {
    std::lock_guard lock(lists_mutex_);
    return lists_.starts.size() * 8 + lists_.groups.size() * 4 + lists_.behind.size() * 8 + codes_.size();
}

void Incidence::potentials(const double* values, int threads, double* potentials) const {
    for_each_task(static_cast<std::int64_t>((groups() + groups_block - 1) / groups_block), threads,
                  [&](std::int64_t b) {
                      const std::size_t first = static_cast<std::size_t>(b) * groups_block;
                      for (std::size_t g = first; g < std::min(groups(), first + groups_block); ++g) {
                          double sum = 0;
                          for (std::int64_t i = starts_[g]; i < starts_[g + 1]; ++i)
                              sum += values[queries_[i]];
                          potentials[g] = sum;
                      }
                  });
}

void Incidence::sums(const double* weights, double* sums) const {
    std::fill_n(sums, count_, 0.0);
    for (std::size_t g = 0; g < groups(); ++g) {
        const double weight = weights[g];
        for (std::int64_t i = starts_[g]; i < starts_[g + 1]; ++i) sums[queries_[i]] += weight;
    }
}

const Incidence::Lists& Incidence::lists() const {
    std::lock_guard lock(lists_mutex_);
    if (!lists_.starts.empty()) return lists_;
    Lists built;
    built.starts.assign(count_ + 1, 0);
    for (std::uint32_t query : queries_) ++built.starts[query + 1];
    for (std::size_t q = 0; q < count_; ++q) built.starts[q + 1] += built.starts[q];
    built.groups.resize(queries_.size());
    built.behind.resize(queries_.size());
    auto next = built.starts;
    for (std::size_t g = 0; g < groups(); ++g)
        for (std::int64_t i = starts_[g]; i < starts_[g + 1]; ++i) {
            const std::int64_t at = next[queries_[i]]++;
            built.groups[at] = static_cast<std::uint32_t>(g);
            built.behind[at] = i + 1;
        }
    lists_ = std::move(built);
    return lists_;
}

bool Incidence::dense() const {
    const auto many = static_cast<double>(groups()), matched = static_cast<double>(queries_.size());
    const double pairs = matched * (matched / many + 1) / 2;  // at least
    const auto blocks = static_cast<double>((count_ + code_bits - 1) / code_bits);
    // An addition to a table in L1 costs half of one by lists; a table costs some thousand.
    return blocks * (blocks + 1) / 2 * (many / 2 + 6000) < pairs;
}

const std::vector<std::uint8_t>& Incidence::group_codes() const {
    std::lock_guard lock(lists_mutex_);
    if (!codes_.empty()) return codes_;
    std::vector<std::uint8_t> built((count_ + code_bits - 1) / code_bits * groups());
    for (std::size_t g = 0; g < groups(); ++g)
        for (std::int64_t i = starts_[g]; i < starts_[g + 1]; ++i)
            built[queries_[i] / code_bits * groups() + g] |=
                static_cast<std::uint8_t>(1u << queries_[i] % code_bits);
    codes_ = std::move(built);
    return codes_;
}

void Incidence::gram(const double* weights, int threads, double* matrix) const {
    dense() ? gram_by_codes(weights, threads, matrix) : gram_by_lists(weights, threads, matrix);
    for_each_task(static_cast<std::int64_t>((count_ + square - 1) / square), threads, [&](std::int64_t s) {
        const std::size_t top = static_cast<std::size_t>(s) * square, bottom = std::min(count_, top + square);
        for (std::size_t left = 0; left <= top; left += square)
            for (std::size_t i = top; i < bottom; ++i)
                for (std::size_t j = left; j < std::min(i, left + square); ++j)
                    matrix[i * count_ + j] = matrix[j * count_ + i];
    });
}

// Six queries make a code of a group. For each pair of codes the weights are added up in a table of both,
// whose rows and columns then add up to the pairs of queries.
void Incidence::gram_by_codes(const double* weights, int threads, double* matrix) const {
    const std::vector<std::uint8_t>& codes_of_groups = group_codes();
    const std::size_t blocks = (count_ + code_bits - 1) / code_bits;
    std::vector<std::array<std::size_t, 2>>
        tasks;  // the first code, and the first of up to three second ones
    for (std::size_t a = 0; a < blocks; ++a)
        for (std::size_t b = a; b < blocks; b += tables_together) tasks.push_back({a, b});
    for_each_task(static_cast<std::int64_t>(tasks.size()), threads, [&](std::int64_t task) {
        const auto [a, b] = tasks[task];
        const std::size_t many = std::min(tables_together, blocks - b);
        const auto code = [&](std::size_t k) { return codes_of_groups.data() + k * groups(); };
        const std::uint8_t* const second[tables_together] = {code(b), code(b + (many > 1)),
                                                             code(b + 2 * (many > 2))};
        std::vector<CodeTable> tables(many);
        (many == 3   ? add_to_tables<3>
         : many == 2 ? add_to_tables<2>
                     : add_to_tables<1>)(weights, code(a), second, groups(), tables.data());
        for (std::size_t k = 0; k < many; ++k) {
            for (std::size_t i = 0; i < code_bits && a * code_bits + i < count_; ++i) {
                double with[code_values] = {};  // by second code, over the first codes that have query i
                for (std::size_t x = 0; x < code_values; ++x)
                    if (x >> i & 1)
                        for (std::size_t y = 0; y < code_values; ++y)
                            with[y] += tables[k][x * code_values + y];
                double* const row = matrix + (a * code_bits + i) * count_ + (b + k) * code_bits;
                for (std::size_t j = 0; j < code_bits && (b + k) * code_bits + j < count_; ++j) {
                    row[j] = 0;
                    for (std::size_t y = 0; y < code_values; ++y) row[j] += y >> j & 1 ? with[y] : 0;
                }
            }
        }
    });
}

void Incidence::gram_by_lists(const double* weights, int threads, double* matrix) const {
    const Lists& lists = this->lists();
    // Row by row of the matrix: a row stays in L1 while the groups of its query are visited.
    for_each_task(static_cast<std::int64_t>(count_), threads, [&](std::int64_t query) {
        double* const row = matrix + static_cast<std::size_t>(query) * count_;
        std::fill_n(row, count_, 0.0);
        const std::int64_t end = lists.starts[query + 1];
        for (std::int64_t at = lists.starts[query]; at < end; ++at) {
            // Groups are scattered in memory: prefetch their queries.
            const std::int64_t ahead = lists.behind[std::min(at + 8, end - 1)];
            __builtin_prefetch(queries_.data() + ahead);
            const std::uint32_t group = lists.groups[at];
            const double weight = weights[group];
            row[query] += weight;
            for (std::int64_t i = lists.behind[at]; i < starts_[group + 1]; ++i) row[queries_[i]] += weight;
        }
    });
}

}  // namespace privmw
