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

namespace {

constexpr std::size_t batch = 16;  // rows whose cells are found together: their cell numbers stay in L1

// own[i] = the cell of row i. codes: batch after batch, one for each attribute. In 16 bits the baseline
// instruction set multiplies eight at a time.
template <class Index>
void find_cells(std::span<const std::int32_t> attributes, const std::vector<std::uint32_t>& sizes,
                const std::uint32_t* codes, std::size_t first, std::uint32_t* own) {
    Index cells[batch] = {};
    for (std::int32_t a : attributes) {
        const std::uint32_t* const code = codes + static_cast<std::size_t>(a) * batch;
        const auto size = static_cast<Index>(sizes[a]);
        for (std::size_t i = 0; i < batch; ++i)
            cells[i] = static_cast<Index>(static_cast<Index>(cells[i] * size) + static_cast<Index>(code[i]));
    }
    for (std::size_t i = 0; i < batch; ++i) own[i] = static_cast<std::uint32_t>(first) + cells[i];
}

}  // namespace

double Tallies::descend(std::span<const Row> order, const double* precisions, const double* bends,
                        double* weights, double* pulls) const {
    prepare_codes();
    const std::size_t marginals = margins_.size(), attributes = margins_.sizes.size();
    const double* const sums_precisions = precisions + cells();
    double* const sums_pulls = pulls + cells();
    std::vector<std::uint32_t> codes(attributes), codes_of_batch(attributes * batch);
    std::vector<std::uint32_t> own(marginals * batch), low(marginals + 1);
    std::vector<std::uint8_t> grouped(groups_.size());  // which cells are in a group: these stay in L1
    for (std::size_t q = 0; q < groups_.size(); ++q) grouped[q] = groups_[q] >= 0;
    double largest = 0;
    for (std::size_t first = 0; first < order.size(); first += batch) {
        const std::size_t count = std::min(batch, order.size() - first);
        for (std::size_t i = 0; i < count; ++i) {
            __builtin_prefetch(weights + order[first + i]);
            __builtin_prefetch(bends + order[first + i]);
            codes_of(order[first + i], codes.data());
            for (std::size_t a = 0; a < attributes; ++a) codes_of_batch[a * batch + i] = codes[a];
        }
        for (std::size_t j = 0; j < marginals; ++j)
            (offsets_[j + 1] - offsets_[j] <= 0x10000
                 ? find_cells<std::uint16_t>
                 : find_cells<std::uint32_t>)(margins_[j], margins_.sizes, codes_of_batch.data(), offsets_[j],
                                              own.data() + j * batch);
        for (std::size_t i = 0; i < count; ++i) {
            const Row row = order[first + i];
            const std::uint32_t* const cells_of_row = own.data() + i;
            // Several sums at once: one would wait for each addition.
            double parts[4] = {};
            std::size_t lows = 0, j = 0;
            for (; j + 4 <= marginals; j += 4)
                for (std::size_t k = 0; k < 4; ++k) parts[k] += pulls[cells_of_row[(j + k) * batch]];
            for (; j < marginals; ++j) parts[0] += pulls[cells_of_row[j * batch]];
            if (groups_count_)
                for (j = 0; j < marginals; ++j) {
                    low[lows] = cells_of_row[j * batch];
                    lows += grouped[low[lows]];
                }
            for (std::size_t k = 0; k < lows; ++k) {
                low[k] = static_cast<std::uint32_t>(groups_[low[k]]);
                parts[k % 4] += sums_pulls[low[k]];
            }
            double pull = (parts[0] + parts[1]) + (parts[2] + parts[3]);
            const bool counts = !marked_.empty() && marked_[row];
            if (counts) pull += pulls[count_ - 1];
            const double now = weights[row];
            if (!(bends[row] > 0) || (now == 0 && pull >= 0)) continue;
            const double moved = std::max(now - pull / bends[row], 0.0), move = moved - now;
            weights[row] = moved;
            for (j = 0; j < marginals; ++j) {
                const std::uint32_t q = cells_of_row[j * batch];
                pulls[q] += precisions[q] * move;
            }
            for (std::size_t k = 0; k < lows; ++k) sums_pulls[low[k]] += sums_precisions[low[k]] * move;
            if (counts) pulls[count_ - 1] += precisions[count_ - 1] * move;
            largest = std::max(largest, std::abs(move));
        }
    }
    return largest;
}

}  // namespace privmw
