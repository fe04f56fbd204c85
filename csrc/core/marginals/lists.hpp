// Sparse evaluation by lists of uncommon values: all pairs of uncommon ids of some rows, in one pass.
//
// A scope is all rows, or those with one uncommon value. A row adds its mass to the cell of every pair of its
// ids. Cells with a common value follow by inclusion and exclusion: the total less the uncommon values.
#pragma once

#include <span>

#include "core/columns.hpp"
#include "wiped.hpp"

namespace privmw {

// Masses by id and by pair of ids, for pairs whose first id lies in [first, last). Ids of one attribute form
// no pair.
class IdPairSums {
  public:
    IdPairSums(const IdLayout& layout, std::uint32_t first, std::uint32_t last);

    void clear();
    void add_all_rows(const UncommonIds& ids, std::size_t rows, const Mass* masses);
    void add_rows_with(std::uint32_t id, const UncommonIds& ids, const Mass* masses);  // the ids after it
    void add(const IdPairSums& other);                                                 // of the same range

    std::size_t cells() const { return pairs_.size(); }
    Mass total() const { return total_; }
    Mass single(std::uint32_t id) const { return singles_[id]; }
    // pair(first)[second], for a second id of a later attribute
    const Mass* pair(std::uint32_t first) const { return pairs_.data() + row_[first - first_]; }

  private:
    class RowAdder;

    std::uint32_t first_, last_;
    Mass total_ = 0;
    Wiped<Mass> singles_;
    Wiped<Mass> pairs_;
    std::vector<std::ptrdiff_t>
        row_;  // of an id from first_ on: the offset of its pairs, less the smallest partner
};

// An attribute of a marginal, for the lists.
struct ListedAxis {
    std::uint32_t first_id = 0;
    std::uint32_t size = 1;
    std::uint32_t common = 0;
    std::uint32_t stride = 1;         // in the marginal's cells, at most 64^3 of them
    std::uint32_t parent_stride = 1;  // in the cells of its parent
};

// Writes one attribute within the scope to cells, all values, or adds it if `add`.
void expand_single(const IdPairSums& sums, const ListedAxis& axis, bool add, Mass* cells);

// Writes the pair (b, c) within the scope, all values of both, to cells[vb * stride + vc * stride], or adds
// it if `add`. `b` has the smaller ids. With a parent, the parent less that pair is written
// instead.
void expand_pair(const IdPairSums& sums, const ListedAxis& b, const ListedAxis& c, bool add, Mass* cells,
                 const Mass* parent = nullptr);

}  // namespace privmw
