#include "core/projection.hpp"

#include <algorithm>

#include "core/parallel.hpp"

namespace privmw {

namespace {

constexpr std::size_t block = 4096;  // groups of a task
constexpr std::size_t square = 32;   // queries a side: a piece of the matrix that is mirrored within L1

}  // namespace

std::size_t Incidence::bytes() const {
    std::lock_guard lock(lists_mutex_);
    return lists_.starts.size() * 8 + lists_.groups.size() * 4 + lists_.behind.size() * 8;
}

void Incidence::potentials(const double* values, int threads, double* potentials) const {
    for_each_task(static_cast<std::int64_t>((groups() + block - 1) / block), threads, [&](std::int64_t b) {
        const std::size_t first = static_cast<std::size_t>(b) * block;
        for (std::size_t g = first; g < std::min(groups(), first + block); ++g) {
            double sum = 0;
            for (std::int64_t i = starts_[g]; i < starts_[g + 1]; ++i) sum += values[queries_[i]];
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

void Incidence::gram(const double* weights, int threads, double* matrix) const {
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
    for_each_task(static_cast<std::int64_t>((count_ + square - 1) / square), threads, [&](std::int64_t s) {
        const std::size_t top = static_cast<std::size_t>(s) * square, bottom = std::min(count_, top + square);
        for (std::size_t left = 0; left <= top; left += square)
            for (std::size_t i = top; i < bottom; ++i)
                for (std::size_t j = left; j < std::min(i, left + square); ++j)
                    matrix[i * count_ + j] = matrix[j * count_ + i];
    });
}

}  // namespace privmw
