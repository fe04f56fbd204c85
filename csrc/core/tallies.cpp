#include "core/tallies.hpp"

#include <algorithm>
#include <cmath>

namespace privmw {

Tallies::Tallies(Margins marginals, std::size_t rows, std::span<const std::int32_t> groups,
                 std::span<const std::uint8_t> marked)
    : marginals_(std::move(marginals)), rows_(rows), groups_(groups), marked_(marked) {
    offsets_.assign(1, 0);
    for (std::size_t j = 0; j < marginals_.size(); ++j)
        offsets_.push_back(offsets_.back() + marginals_.cells(j));
    for (std::int32_t group : groups_)
        groups_count_ = std::max(groups_count_, static_cast<std::size_t>(group + 1));
    count_ = cells() + groups_count_ + !marked_.empty();
}

void Tallies::sums(const double* weights, double* sums) const {
    cell_sums(weights, sums);
    double* const grouped = sums + cells();
    std::fill_n(grouped, groups_count_, 0.0);
    if (groups_count_)
        for (std::size_t q = 0; q < cells(); ++q)
            if (groups_[q] >= 0) grouped[groups_[q]] += sums[q];
    if (marked_.empty()) return;
    double sum = 0;
    for (std::size_t row = 0; row < rows_; ++row) sum += marked_[row] ? weights[row] : 0;
    sums[count_ - 1] = sum;
}

void Tallies::potentials(const double* values, double* potentials) const {
    if (groups_count_) {
        std::vector<double> together(values, values + cells());
        for (std::size_t q = 0; q < cells(); ++q)
            if (groups_[q] >= 0) together[q] += values[cells() + groups_[q]];
        cell_potentials(together.data(), potentials);
    } else {
        cell_potentials(values, potentials);
    }
    if (marked_.empty()) return;
    const double value = values[count_ - 1];
    for (std::size_t row = 0; row < rows_; ++row) potentials[row] += marked_[row] ? value : 0;
}

void Tallies::gram(const double* weights, double* matrix) const {
    const std::size_t cells = this->cells();
    cell_gram(weights, matrix);
    const auto at = [&](std::size_t i, std::size_t j) -> double& { return matrix[i * count_ + j]; };
    // A group's row is the sum of its cells' rows; the group's own columns follow from those.
    for (std::size_t e = cells; e < cells + groups_count_; ++e) std::fill_n(&at(e, 0), count_, 0.0);
    if (groups_count_) {
        for (std::size_t q = 0; q < cells; ++q)
            if (groups_[q] >= 0)
                for (std::size_t k = 0; k < cells; ++k) at(cells + groups_[q], k) += at(q, k);
        for (std::size_t e = cells; e < cells + groups_count_; ++e)
            for (std::size_t q = 0; q < cells; ++q) {
                at(q, e) = at(e, q);
                if (groups_[q] >= 0) at(e, cells + groups_[q]) += at(e, q);
            }
    }
    if (marked_.empty()) return;
    std::vector<double> held(rows_), sums(count_);
    for (std::size_t row = 0; row < rows_; ++row) held[row] = marked_[row] ? weights[row] : 0;
    this->sums(held.data(), sums.data());
    for (std::size_t q = 0; q < count_; ++q) at(count_ - 1, q) = at(q, count_ - 1) = sums[q];
}

double Tallies::descend(std::span<const Row> order, const double* precisions, double* weights,
                        double* pulls) const {
    const std::size_t marginals = marginals_.size(), cells = this->cells();
    std::vector<std::uint32_t> codes(marginals_.sizes.size()), own(marginals);
    std::vector<std::uint32_t> queries(2 * marginals + 1);
    double largest = 0;
    for (Row row : order) {
        codes_of(row, codes.data());
        cells_of(codes.data(), own.data());
        std::size_t count = 0;
        for (std::uint32_t q : own) {
            queries[count++] = q;
            if (groups_count_ && groups_[q] >= 0)
                queries[count++] = static_cast<std::uint32_t>(cells + groups_[q]);
        }
        if (!marked_.empty() && marked_[row]) queries[count++] = static_cast<std::uint32_t>(count_ - 1);
        double pull = 0, bend = 0;
        for (std::size_t i = 0; i < count; ++i) pull += pulls[queries[i]], bend += precisions[queries[i]];
        const double now = weights[row];
        if (!(bend > 0) || (now == 0 && pull >= 0)) continue;
        const double moved = std::max(now - pull / bend, 0.0), move = moved - now;
        weights[row] = moved;
        for (std::size_t i = 0; i < count; ++i) pulls[queries[i]] += precisions[queries[i]] * move;
        largest = std::max(largest, std::abs(move));
    }
    return largest;
}

}  // namespace privmw
