// Marginals of a mixture of K products, each with one table per attribute.
//
// A cell is the sum over products of a weight times the entries of the cell's values. Marginals that differ
// in one attribute only, the hub, form a group: the products of the other tables are computed once, a block
// of rows at a time, and multiplied with the tables of all hubs as matrices. Sums are floating-point: their
// bits depend on the kind of processor, not on the number of threads.
#pragma once

#include "core/marginals/plan.hpp"
#include "core/types.hpp"

namespace privmw {

class Products {
  public:
    Products(const std::vector<std::uint32_t>& sizes, const MarginalList& workload);

    std::size_t cells() const { return cells_; }
    std::size_t width() const { return width_; }  // rows of the stacked tables

    // tables: IN, width x products, the values of the first attribute first. weights: IN, one per product.
    // answers: OUT, one per cell. T: float or double.
    template <class T>
    void answers(const T* tables, const T* weights, std::size_t products, T* answers, int threads) const;

    // by_cell: IN, the gradient of a loss with respect to cells; by_tables, by_weights: OUT, to tables and
    // weights. Combinations whose cells all have derivative 0 cost nothing.
    template <class T>
    void gradient(const T* tables, const T* weights, const T* by_cell, std::size_t products, T* by_tables,
                  T* by_weights, int threads) const;

  private:
    struct Member {            // a marginal of a group
        std::size_t cell = 0;  // its first
        std::uint32_t hub_size = 0;
        std::size_t hub_stride = 0, strides[5] = {};  // in cells, of the hub and of the others
    };
    struct Group {
        std::uint32_t others = 0, sizes[5] = {};
        std::size_t first_rows[5] = {};  // of the others in the ordered tables
        std::size_t rows = 1;            // combinations of the others' values
        std::size_t start = 0;           // of its cells when all are gathered group by group
        std::vector<Member> members;
        std::vector<std::size_t> hub_rows;  // in the ordered tables, all hubs one after the other
        bool adjacent = true;               // whether these follow each other
    };
    template <class Visit>
    static void for_each_run(const Group& group, std::size_t row, Visit&& visit);
    template <class T>
    void gather(const Group& group, const T* by_cell, T* pull, std::vector<std::size_t>& used) const;

    std::vector<Group> groups_;
    std::vector<std::size_t> source_;  // for each row of the ordered tables its row in the caller's
    std::size_t cells_ = 0, width_ = 0;
};

}  // namespace privmw
