// Tallies over the rows of a table, whose codes lie row after row.
#include <algorithm>

#include "core/tallies.hpp"

namespace privmw {

namespace {

constexpr std::size_t most_unknowns = 2500;  // of a gram matrix: 50 MB
constexpr std::size_t most_marginals = 64;   // a row adds to the square of them

template <class Code>
class RowTallies : public Tallies {
  public:
    RowTallies(Margins marginals, const Code* codes, std::size_t rows, std::span<const std::int32_t> groups,
               std::span<const std::uint8_t> marked)
        : Tallies(std::move(marginals), rows, groups, marked), codes_(codes) {}

    bool has_gram() const override {
        return count() <= most_unknowns && marginals().size() <= most_marginals;
    }
    std::size_t bytes() const override { return 0; }

  protected:
    void cell_sums(const double* weights, double* sums) const override {
        std::fill_n(sums, cells(), 0.0);
        for_each_row(weights, [&](double weight, const std::vector<std::uint32_t>& own) {
            for (std::uint32_t cell : own) sums[cell] += weight;
        });
    }

    void cell_potentials(const double* values, double* potentials) const override {
        std::vector<std::uint32_t> codes(marginals().sizes.size()), own(marginals().size());
        for (std::size_t row = 0; row < rows(); ++row) {
            codes_of(row, codes.data());
            cells_of(codes.data(), own.data());
            double sum = 0;
            for (std::uint32_t cell : own) sum += values[cell];
            potentials[row] = sum;
        }
    }

    void cell_gram(const double* weights, double* matrix) const override {
        for (std::size_t i = 0; i < cells(); ++i) std::fill_n(matrix + i * count(), cells(), 0.0);
        for_each_row(weights, [&](double weight, const std::vector<std::uint32_t>& own) {
            for (std::uint32_t a : own)
                for (std::uint32_t b : own) matrix[a * count() + b] += weight;
        });
    }

    void codes_of(std::size_t row, std::uint32_t* codes) const override {
        const std::size_t attributes = marginals().sizes.size();
        std::copy_n(codes_ + row * attributes, attributes, codes);
    }

  private:
    template <class Visit>
    void for_each_row(const double* weights, Visit&& visit) const {
        std::vector<std::uint32_t> codes(marginals().sizes.size()), own(marginals().size());
        for (std::size_t row = 0; row < rows(); ++row) {
            if (weights[row] == 0) continue;
            codes_of(row, codes.data());
            cells_of(codes.data(), own.data());
            visit(weights[row], own);
        }
    }

    const Code* codes_;
};

}  // namespace

std::unique_ptr<Tallies> tallies_of_rows(Margins marginals, const void* codes, int width, std::size_t rows,
                                         std::span<const std::int32_t> groups,
                                         std::span<const std::uint8_t> marked) {
    return with_codes({codes, width, 1}, [&](auto* typed) -> std::unique_ptr<Tallies> {
        using Code = std::remove_cvref_t<decltype(*typed)>;
        return std::make_unique<RowTallies<Code>>(std::move(marginals), typed, rows, groups, marked);
    });
}

}  // namespace privmw
