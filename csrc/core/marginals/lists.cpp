#include "core/marginals/lists.hpp"

#include <algorithm>

namespace privmw {

namespace {

// The sum for padding may overflow; it is never read.
void add_wrapping(Mass& sum, Mass mass) {
    sum = static_cast<Mass>(static_cast<std::uint64_t>(sum) + static_cast<std::uint64_t>(mass));
}

}  // namespace

IdPairSums::IdPairSums(const IdLayout& layout, std::uint32_t first, std::uint32_t last)
    : first_(first), last_(last), singles_(layout.count() + 1), row_(last - first) {
    const std::uint32_t count = layout.count();
    std::ptrdiff_t cells = 0;
    for (std::size_t p = 0; p + 1 < layout.first.size(); ++p) {
        const std::uint32_t next = layout.first[p + 1];  // partners are ids of later attributes
        for (std::uint32_t id = std::max(first, layout.first[p]); id < std::min(last, next); ++id) {
            row_[id - first] = cells - static_cast<std::ptrdiff_t>(next);
            cells += count - next + 1;  // one extra, for padding
        }
    }
    pairs_.resize(cells);
}

void IdPairSums::clear() {
    total_ = 0;
    std::fill(singles_.begin(), singles_.end(), 0);
    std::fill(pairs_.begin(), pairs_.end(), 0);
}

void IdPairSums::add(const IdPairSums& other) {
    total_ += other.total_;
    for (std::size_t i = 0; i < singles_.size(); ++i) add_wrapping(singles_[i], other.singles_[i]);
    for (std::size_t i = 0; i < pairs_.size(); ++i) add_wrapping(pairs_[i], other.pairs_[i]);
}

// The loop over rows keeps these in registers.
class IdPairSums::RowAdder {
  public:
    explicit RowAdder(IdPairSums& sums)
        : singles_(sums.singles_.data()),
          pairs_(sums.pairs_.data()),
          row_(sums.row_.data() - sums.first_),
          first_(sums.first_),
          last_(sums.last_) {}

    // Ids ascending and padded.
    void operator()(const Id* begin, const Id* end, Mass mass) const {
        add(singles_, begin, end, mass);
        while (begin < end && *begin < first_) ++begin;
        // A row has one id per attribute, so later ids belong to later attributes.
        for (; begin + 1 < end && *begin < last_; ++begin) add(pairs_ + row_[*begin], begin + 1, end, mass);
    }

  private:
    // Four at a time, with padding: the trip count depends on the length only, which is predictable since
    // rows are sorted.
    static void add(Mass* sums, const Id* id, const Id* end, Mass mass) {
        for (; id < end; id += 4) {
            add_wrapping(sums[id[0]], mass);
            add_wrapping(sums[id[1]], mass);
            add_wrapping(sums[id[2]], mass);
            add_wrapping(sums[id[3]], mass);
        }
    }

    Mass* singles_;
    Mass* pairs_;
    const std::ptrdiff_t* row_;
    std::uint32_t first_, last_;
};

void IdPairSums::add_all_rows(const UncommonIds& ids, std::size_t rows, const Mass* masses) {
    const RowAdder add_row(*this);
    for (std::size_t row = 0; row < rows; ++row) {
        add_row(ids.begin(row), ids.end(row), masses[row]);
        total_ += masses[row];
    }
}

void IdPairSums::add_rows_with(std::uint32_t id, const UncommonIds& ids, const Mass* masses) {
    const RowAdder add_row(*this);
    for (std::uint64_t i = ids.list_starts[id]; i < ids.list_starts[id + 1]; ++i) {
        const Row row = ids.list_rows[i];
        add_row(ids.begin(row) + ids.list_places[i] + 1, ids.end(row), masses[row]);
        total_ += masses[row];
    }
}

namespace {

template <bool add, bool from_parent>
void expand(const IdPairSums& sums, const ListedAxis& b, const ListedAxis& c, Mass* cells,
            const Mass* parent) {
    const auto put = [&](std::uint32_t at, std::uint32_t at_parent, Mass mass) {
        if constexpr (from_parent) mass = parent[at_parent] - mass;
        cells[at] = add ? cells[at] + mass : mass;
    };
    // One row of cells, b fixed: mass(j) for the j-th uncommon value of c and `rest` for the common one.
    const auto put_row = [&](std::uint32_t vb, auto&& mass, Mass scope) {
        std::uint32_t at = vb * b.stride, at_parent = vb * b.parent_stride;
        for (std::uint32_t j = 0; j + 1 < c.size; ++j) {
            if (j == c.common) at += c.stride, at_parent += c.parent_stride;
            const Mass each = mass(j);
            put(at, at_parent, each);
            scope -= each;
            at += c.stride, at_parent += c.parent_stride;
        }
        put(vb * b.stride + c.common * c.stride, vb * b.parent_stride + c.common * c.parent_stride, scope);
    };
    Mass column[64];  // by value of c, over the uncommon values of b; attributes with ids have at most 64
    std::fill_n(column, c.size, 0);
    Mass rest = sums.total();
    for (std::uint32_t i = 0; i + 1 < b.size; ++i) {
        const Mass* const pair = sums.pair(b.first_id + i) + c.first_id;
        const Mass single = sums.single(b.first_id + i);
        put_row(i + (i >= b.common), [&](std::uint32_t j) { return column[j] += pair[j], pair[j]; }, single);
        rest -= single;
    }
    put_row(b.common, [&](std::uint32_t j) { return sums.single(c.first_id + j) - column[j]; }, rest);
}

}  // namespace

void expand_single(const IdPairSums& sums, const ListedAxis& axis, bool add, Mass* cells) {
    Mass rest = sums.total();
    for (std::uint32_t i = 0; i + 1 < axis.size; ++i) {
        const Mass mass = sums.single(axis.first_id + i);
        Mass& cell = cells[i + (i >= axis.common)];
        cell = (add ? cell : 0) + mass;
        rest -= mass;
    }
    cells[axis.common] = (add ? cells[axis.common] : 0) + rest;
}

void expand_pair(const IdPairSums& sums, const ListedAxis& b, const ListedAxis& c, bool add, Mass* cells,
                 const Mass* parent) {
    const auto chosen = parent ? (add ? expand<true, true> : expand<false, true>)
                               : (add ? expand<true, false> : expand<false, false>);
    chosen(sums, b, c, cells, parent);
}

}  // namespace privmw
