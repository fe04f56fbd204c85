// Gibbs moves: one attribute of many records drawn anew, under the values of a workload's cells.
//
// The score of a record is the sum of the values of the cells that hold it. Values are integers in units of
// 2^exponent, added modulo 2^64: the draw of a record has the same bits in any order of adding.
#pragma once

#include <span>

#include "core/marginals/plan.hpp"
#include "core/types.hpp"

namespace privmw {

// What the values of one attribute weigh before their scores: keep * [v == kept] + base[v].
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

    // Draws columns of codes (IN and OUT, records x attributes) anew, one after the other: value v with
    // probability proportional to its weight times exp(score with value v). values: IN, one per cell; null:
    // all are zero. The first 53 bits of a word say how far up the cumulative weights the draw is.
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
    // Read where it is: too large to be rearranged for so few records, or of too many attributes.
    struct InPlace {
        const Wrapping* cells;
        std::size_t stride;  // of the attribute that is drawn
        std::uint32_t others = 0, attributes[6] = {};
        std::size_t strides[6] = {};
    };
    // The attributes of a marginal besides one (none: all), and the step of that one.
    InPlace besides(const Marginal& marginal, const Wrapping* values, std::uint32_t attribute) const;
    bool rearranged(const InPlace& marginal, std::uint32_t most_others, std::size_t records) const;

    class Records;  // those of one call
    struct Tables;  // of one attribute

    void make_tables(const Wrapping* values, const Records& records, std::uint32_t attribute, int threads,
                     Tables& tables) const;

    std::vector<std::uint32_t> sizes_;
    std::vector<Marginal> marginals_;
    std::vector<std::vector<std::uint32_t>> of_attribute_;  // the marginals that have it
    std::size_t cells_ = 0;
};

}  // namespace privmw
