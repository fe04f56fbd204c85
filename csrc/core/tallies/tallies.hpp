// Sums of float weights by the cells of marginals, over a full histogram or over a table's rows, their
// adjoint and their gram matrix. A query is a cell, then a group of cells of one marginal, then the marked
// rows.
#pragma once

#include <memory>
#include <span>

#include "core/columns.hpp"

namespace privmw {

inline constexpr std::size_t most_unknowns = 2500;  // of a gram matrix: 50 MB

// Marginal j has the attributes (ascending) attributes[starts[j]] to attributes[starts[j + 1] - 1], none or
// many; its cells come in C order, the marginals one after the other.
struct Margins {
    std::vector<std::uint32_t> sizes;  // of all attributes
    std::vector<std::int32_t> attributes;
    std::vector<std::int64_t> starts;

    std::size_t size() const { return starts.size() - 1; }
    std::span<const std::int32_t> operator[](std::size_t j) const {
        return {attributes.data() + starts[j], static_cast<std::size_t>(starts[j + 1] - starts[j])};
    }
    std::size_t cells(std::size_t j) const {
        std::size_t cells = 1;
        for (std::int32_t a : (*this)[j]) cells *= sizes[a];
        return cells;
    }
};

class Tallies {
  public:
    // groups: IN, one per cell, the group it counts in too or -1; marked: IN, one per row, or empty. Keeps
    // views of both.
    Tallies(Margins margins, std::size_t rows, std::span<const std::int32_t> groups,
            std::span<const std::uint8_t> marked);
    virtual ~Tallies() = default;

    std::size_t rows() const { return rows_; }
    std::size_t count() const { return count_; }  // of queries
    const Margins& margins() const { return margins_; }
    std::span<const std::size_t> offsets() const { return offsets_; }  // the first cell of each, and the end

    // sums: OUT, one per query, of the weights (IN, one per row) of its rows.
    void sums(const double* weights, double* sums) const;

    // potentials: OUT, one per row, the sum of the values (IN, one per query) of its queries.
    void potentials(const double* values, double* potentials) const;

    // Whether a gram matrix costs less than the conjugate gradients it saves.
    virtual bool has_gram() const = 0;

    // matrix: OUT, count x count, the weight of the rows that both queries count; symmetric.
    void gram(const double* weights, double* matrix) const;

    // One pass of coordinate descent: each row of `order` in turn takes the weight, not negative, that is
    // best for it. precisions: IN, pulls: IN and OUT, one per query: the precision, and that times
    // (sum - answer); bends: IN, one per row, the precisions of its queries. Returns the largest move.
    double descend(std::span<const Row> order, const double* precisions, const double* bends, double* weights,
                   double* pulls) const;

    virtual std::size_t bytes() const = 0;

  protected:
    virtual void cell_sums(const double* weights, double* sums) const = 0;
    virtual void cell_potentials(const double* values, double* potentials) const = 0;
    // The upper left of a matrix whose rows are `count` long: cells x cells, both triangles.
    virtual void cell_gram(const double* weights, double* matrix) const = 0;

    // codes: OUT, one per attribute.
    virtual void codes_of(std::size_t row, std::uint32_t* codes) const = 0;
    virtual void prepare_codes() const {}  // before the first

    std::size_t cells() const { return offsets_.back(); }

  private:
    Margins margins_;
    std::vector<std::size_t> offsets_;
    std::size_t rows_, count_, groups_count_ = 0;
    std::span<const std::int32_t> groups_;
    std::span<const std::uint8_t> marked_;
};

std::unique_ptr<Tallies> tallies_of_histogram(Margins margins, std::span<const std::int32_t> groups,
                                              std::span<const std::uint8_t> marked);

// Keeps a reference to `columns`.
std::unique_ptr<Tallies> tallies_of_rows(Margins margins, const Columns& columns,
                                         std::span<const std::int32_t> groups,
                                         std::span<const std::uint8_t> marked, int threads);

}  // namespace privmw
