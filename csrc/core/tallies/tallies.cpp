#include "core/tallies/tallies.hpp"

#include <algorithm>
#include <cmath>

namespace privmw {

Tallies::Tallies(Margins margins, std::size_t rows, std::span<const std::int32_t> groups,
                 std::span<const std::uint8_t> marked)
    : margins_(std::move(margins)), rows_(rows), groups_(groups), marked_(marked) {
    offsets_.assign(1, 0);
    for (std::size_t j = 0; j < margins_.size(); ++j) offsets_.push_back(offsets_.back() + margins_.cells(j));
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

double Tallies::descend(std::span<const Row> order, const double* precisions, const double* bends,
                        double* weights, double* pulls) const {
    prepare_codes();
    const std::size_t cells = this->cells();
    const double* const sums_precisions = precisions + cells;
    double* const sums_pulls = pulls + cells;
    std::vector<std::uint32_t> codes(margins_.sizes.size()), own(margins_.size());
    double largest = 0;
    for (Row row : order) {
        codes_of(row, codes.data());
        double pull = marked_.empty() || !marked_[row] ? 0 : pulls[count_ - 1];
        for (std::size_t j = 0; j < own.size(); ++j) {
            std::size_t cell = 0;
            for (std::int32_t a : margins_[j]) cell = cell * margins_.sizes[a] + codes[a];
            own[j] = static_cast<std::uint32_t>(offsets_[j] + cell);
            pull += pulls[own[j]];
            if (groups_count_ && groups_[own[j]] >= 0) pull += sums_pulls[groups_[own[j]]];
        }
        const double now = weights[row];
        if (!(bends[row] > 0) || (now == 0 && pull >= 0)) continue;
        const double moved = std::max(now - pull / bends[row], 0.0), move = moved - now;
        weights[row] = moved;
        for (std::uint32_t q : own) {
            pulls[q] += precisions[q] * move;
            if (groups_count_ && groups_[q] >= 0)
                sums_pulls[groups_[q]] += sums_precisions[groups_[q]] * move;
        }
        if (!marked_.empty() && marked_[row]) pulls[count_ - 1] += precisions[count_ - 1] * move;
        largest = std::max(largest, std::abs(move));
    }
    return largest;
}

}  // namespace privmw
