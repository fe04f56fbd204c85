// Tallies over the rows of a table, by the kernels of marginals: weights and values become integers on one
// scale each, so sums and potentials are exact, and both use the same lists of uncommon values.
#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <type_traits>

#include "core/marginals/marginals.hpp"
#include "core/power_of_two.hpp"
#include "core/tallies/tallies.hpp"

namespace privmw {

namespace {

constexpr std::size_t most_marginals = 64;  // a row adds to the square of them
constexpr std::size_t most_attributes = 6;  // of a marginal of the kernels

class RowTallies : public Tallies {
  public:
    RowTallies(Margins margins, const Columns& columns, std::span<const std::int32_t> groups,
               std::span<const std::uint8_t> marked, int threads)
        : Tallies(std::move(margins), columns.rows(), groups, marked), columns_(columns), threads_(threads) {
        MarginalList list{{}, {0}};
        for (std::size_t j = 0; j < this->margins().size(); ++j) {
            const auto of = this->margins()[j];
            if (of.empty() || of.size() > most_attributes) {
                plain_.push_back(j);
                continue;
            }
            list.attributes.insert(list.attributes.end(), of.begin(), of.end());
            list.starts.push_back(list.attributes.size());
            listed_.push_back(j);
        }
        marginals_ = std::make_unique<Marginals>(columns_, list, threads);
    }

    bool has_gram() const override { return count() <= most_unknowns && margins().size() <= most_marginals; }
    std::size_t bytes() const override {
        std::lock_guard lock(codes_mutex_);
        return marginals_->bytes() + narrow_.size() + 4 * wide_.size();
    }

  protected:
    void cell_sums(const double* weights, double* sums) const override {
        double total = 0;
        for (std::size_t row = 0; row < rows(); ++row) total += std::abs(weights[row]);
        std::fill_n(sums, cells(), 0.0);
        if (!(total > 0)) return;
        int exponent = 0;
        std::frexp(total, &exponent);  // total < 2^exponent: masses total at most 2^61
        std::vector<Mass> masses(rows()), found(marginals_->cells());
        for (std::size_t row = 0; row < rows(); ++row)
            masses[row] = static_cast<Mass>(std::rint(std::ldexp(weights[row], 61 - exponent)));
        marginals_->sum(masses.data(), threads_, found.data());
        std::size_t at = 0;
        for (std::size_t j : listed_)
            for (std::size_t cell = offsets()[j]; cell < offsets()[j + 1]; ++cell)
                sums[cell] = std::ldexp(static_cast<double>(found[at++]), exponent - 61);
        for (std::size_t j : plain_)
            for (std::size_t row = 0; row < rows(); ++row) sums[cell_of(row, j)] += weights[row];
    }

    void cell_potentials(const double* values, double* potentials) const override {
        double bound = 0;  // on the potential of a row
        for (std::size_t j : listed_) {
            double most = 0;
            for (std::size_t cell = offsets()[j]; cell < offsets()[j + 1]; ++cell) {
                const double size = std::abs(values[cell]);
                most = size > most || std::isnan(size) ? size : most;
            }
            bound += most;
        }
        const bool finite = bound <= std::numeric_limits<double>::max();
        std::fill_n(potentials, rows(), finite ? 0 : std::numeric_limits<double>::quiet_NaN());
        if (finite && bound > 0) {
            int exponent = 0;
            std::frexp(bound, &exponent);  // bound < 2^exponent: integers total at most 2^61
            const PowerOfTwo power(61 - exponent);
            std::vector<std::int64_t> integers;
            for (std::size_t j : listed_)
                for (std::size_t cell = offsets()[j]; cell < offsets()[j + 1]; ++cell)
                    integers.push_back(std::llrint(power * values[cell]));
            marginals_->potentials(integers.data(), exponent - 61, threads_, potentials);
        }
        for (std::size_t j : plain_)
            for (std::size_t row = 0; row < rows(); ++row) potentials[row] += values[cell_of(row, j)];
    }

    void cell_gram(const double* weights, double* matrix) const override {
        std::vector<std::size_t> own(margins().size());
        for (std::size_t i = 0; i < cells(); ++i) std::fill_n(matrix + i * count(), cells(), 0.0);
        for (std::size_t row = 0; row < rows(); ++row) {
            if (weights[row] == 0) continue;
            for (std::size_t j = 0; j < own.size(); ++j) own[j] = cell_of(row, j);
            for (std::size_t a : own)
                for (std::size_t b : own) matrix[a * count() + b] += weights[row];
        }
    }

    // Row after row: descent visits rows in any order, and columns would be a miss for every attribute.
    void prepare_codes() const override {
        std::lock_guard lock(codes_mutex_);
        if (!narrow_.empty() || !wide_.empty()) return;
        const std::size_t attributes = columns_.attributes();
        const bool narrow = std::ranges::max(margins().sizes) <= 256;
        const auto copy = [&](auto& codes) {
            codes.resize(rows() * attributes);
            for (std::size_t a = 0; a < attributes; ++a)
                with_codes(columns_.column(a), [&](auto* column) {
                    for (std::size_t row = 0; row < rows(); ++row)
                        codes[row * attributes + a] =
                            static_cast<std::remove_reference_t<decltype(codes[0])>>(column[row]);
                });
        };
        narrow ? copy(narrow_) : copy(wide_);
    }

    void codes_of(std::size_t row, std::uint32_t* codes) const override {
        const std::size_t attributes = columns_.attributes();
        if (!narrow_.empty())
            std::copy_n(narrow_.data() + row * attributes, attributes, codes);
        else
            std::copy_n(wide_.data() + row * attributes, attributes, codes);
    }

  private:
    std::size_t cell_of(std::size_t row, std::size_t j) const {
        std::size_t cell = 0;
        for (std::int32_t a : margins()[j]) {
            const Column& column = columns_.column(static_cast<std::size_t>(a));
            cell = cell * column.size +
                   with_codes(column, [&](auto* codes) -> std::size_t { return codes[row]; });
        }
        return offsets()[j] + cell;
    }

    const Columns& columns_;
    int threads_;
    std::vector<std::size_t> listed_, plain_;  // marginals that the kernels take, and others
    std::unique_ptr<Marginals> marginals_;
    mutable std::mutex codes_mutex_;
    mutable std::vector<std::uint8_t> narrow_;  // rows x attributes, where every code fits
    mutable std::vector<std::uint32_t> wide_;   // and else
};

}  // namespace

std::unique_ptr<Tallies> tallies_of_rows(Margins margins, const Columns& columns,
                                         std::span<const std::int32_t> groups,
                                         std::span<const std::uint8_t> marked, int threads) {
    return std::make_unique<RowTallies>(std::move(margins), columns, groups, marked, threads);
}

}  // namespace privmw
