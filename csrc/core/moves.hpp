// Gibbs moves: redraw attributes of many records, one after the other, given values of a workload's cells.
//
// The score of a record is the sum of the values of its cells. Values are integers in units of 2^exponent,
// added modulo 2^64: draws do not depend on the order of additions.
#pragma once

#include <span>

#include "core/marginals/plan.hpp"
#include "core/types.hpp"

namespace privmw {

struct CellsInPlace;

// The weights of the values of an attribute, before scores: keep * [v == kept] + base[v].
struct Weighing {
    const std::uint32_t* kept;     // IN, one per record
    double keep;                   // not negative
    std::span<const double> base;  // IN, one per value of the attribute, none negative
    std::size_t step = 1;          // from one record's kept value to the next
};

class Moves {
  public:
    struct Draw {
        std::uint32_t attribute;
        Weighing weighing;
        const std::uint64_t* words;  // IN, one per record
    };

    Moves(std::vector<std::uint32_t> sizes, const MarginalList& workload);

    std::size_t attributes() const { return sizes_.size(); }
    std::size_t cells() const { return cells_; }
    std::size_t bytes() const;

    // Redraws columns of codes (IN and OUT, records x attributes), one after the other: value v with
    // probability proportional to its weight times exp(score with value v). values: IN, one per cell; null:
    // all are zero. The draw inverts the cumulative weights at the first 53 bits of a word.
    void redraw(const std::int64_t* values, int exponent, std::uint32_t* codes, std::size_t records,
                std::span<const Draw> draws, int threads) const;

    // potentials: OUT, one per record, 2^exponent times its score.
    void potentials(const std::int64_t* values, int exponent, const std::uint32_t* codes, std::size_t records,
                    int threads, double* potentials) const;

  private:
    struct Marginal {
        std::size_t start = 0;  // its first cell
        std::uint32_t order = 0, attributes[6] = {};
        std::size_t strides[6] = {};  // of its attributes, in cells
    };
    // The cells of a marginal, and its attributes without the one that is drawn.
    CellsInPlace besides(const Marginal& marginal, const Wrapping* values, std::uint32_t attribute) const;
    // Marginals that are too large for the number of records, or have too many attributes, are not
    // rearranged.
    bool rearranged(const CellsInPlace& marginal, std::uint32_t most_others, std::size_t records) const;

    std::vector<std::uint32_t> sizes_;
    std::vector<Marginal> marginals_;
    std::vector<std::vector<std::uint32_t>> of_attribute_;  // the marginals that contain it
    std::size_t cells_ = 0;
};

}  // namespace privmw
