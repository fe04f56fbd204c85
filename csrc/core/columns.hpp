// Columns of codes and their uncommon values, on which the sparse ways of evaluating marginals are built.
//
// Each attribute has a commonest value. Attributes are ranked by how many rows differ from it, rarest first.
// The uncommon values of the smaller attributes are numbered in rank order (`ids`), and a row is then the
// short ascending list of the ids it has.
#pragma once

#include <memory>
#include <mutex>
#include <span>

#include "core/types.hpp"
#include "wiped.hpp"

namespace privmw {

using Id = std::uint16_t;

// Every row's uncommon values as ascending ids, row after row; and for every id its rows.
struct UncommonIds {
    // Copies of the id `count` after each row, so that loops may step by four.
    static constexpr int padding = 3;

    std::uint32_t count = 0;  // the number of ids
    std::vector<Id> ids;
    std::vector<std::uint64_t> starts;  // one per row, and the end

    Wiped<std::uint64_t> list_starts;        // one per id, and the end
    std::vector<Row> list_rows;              // ascending within an id
    std::vector<std::uint16_t> list_places;  // index of the id in its row

    const Id* begin(std::size_t row) const { return ids.data() + starts[row]; }
    const Id* end(std::size_t row) const { return ids.data() + starts[row + 1] - padding; }
    std::size_t bytes() const;
};

// The ids. Attributes too wide for tables of id pairs have none.
struct IdLayout {
    std::vector<int> ranked;           // attributes with ids, in rank order
    std::vector<int> position;         // of an attribute in `ranked`; -1: without ids
    std::vector<std::uint32_t> first;  // the first id of ranked[p]; last, the number of ids
    std::uint32_t count() const { return first.back(); }
};

class Columns {
  public:
    Columns(std::vector<Column> columns, std::size_t rows, int threads);

    std::size_t rows() const { return rows_; }
    std::size_t attributes() const { return columns_.size(); }
    const Column& column(std::size_t attribute) const { return columns_[attribute]; }
    std::span<const Column> views() const { return columns_; }
    std::uint32_t common(std::size_t attribute) const { return common_[attribute]; }
    std::size_t uncommon_rows(std::size_t attribute) const { return uncommon_rows_[attribute]; }
    std::uint32_t rank(std::size_t attribute) const { return rank_[attribute]; }  // 0: fewest uncommon rows
    const IdLayout& layout() const { return layout_; }

    // Built at the first call; safe from several threads.
    const UncommonIds& uncommon_ids() const;

    // Only these rows, with the same common values, ranks and ids. The copy owns its codes.
    std::unique_ptr<Columns> take(std::span<const Row> rows) const;

    // The rows with an uncommon value of `attribute`, ascending.
    std::vector<Row> rows_with_uncommon(std::size_t attribute) const;

    std::size_t bytes() const;  // allocated here, beside the caller's codes

  private:
    Columns() = default;
    void rank_attributes();
    void number_ids();

    std::vector<Column> columns_;
    std::size_t rows_ = 0;
    std::vector<std::uint32_t> common_;
    Wiped<std::size_t> uncommon_rows_;
    std::vector<std::uint32_t> rank_;
    IdLayout layout_;
    std::vector<OwnedColumn> owned_;  // of a taken copy
    mutable std::mutex ids_mutex_;
    mutable std::unique_ptr<UncommonIds> ids_;
};

}  // namespace privmw
