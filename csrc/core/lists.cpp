#include "core/lists.hpp"

#include <algorithm>

namespace privmw {

IdPairSums::IdPairSums(const IdLayout& layout, std::uint32_t first, std::uint32_t last)
    : first_(first), last_(last), singles_(layout.count() + 1), row_(last - first) {
    const std::uint32_t count = layout.count();
    std::ptrdiff_t cells = 0;
    for (std::size_t p = 0; p + 1 < layout.first.size(); ++p) {
        const std::uint32_t next = layout.first[p + 1];  // partners are ids of later attributes
        for (std::uint32_t id = std::max(first, layout.first[p]); id < std::min(last, next); ++id) {
            row_[id - first] = cells - static_cast<std::ptrdiff_t>(next);
            cells += count - next + 1;  // one more: where padding lands
        }
    }
    pairs_.resize(cells);
}

void IdPairSums::clear() {
    total_ = 0;
    std::fill(singles_.begin(), singles_.end(), 0);
    std::fill(pairs_.begin(), pairs_.end(), 0);
}

void IdPairSums::add_row(const Id* begin, const Id* end, Mass mass) {
    // Four at a time: with the padding, the trip count is a matter of the length alone, which the branch predictor learns from
    // rows that are sorted.
    const auto add = [&](Mass* sums, const Id* id) {
        for (; id < end; id += 4) {
            sums[id[0]] += mass;
            sums[id[1]] += mass;
            sums[id[2]] += mass;
            sums[id[3]] += mass;
        }
    };
    total_ += mass;
    add(singles_.data(), begin);
    while (begin < end && *begin < first_) ++begin;
    // A row has one id of an attribute, so whatever follows is of a later attribute.
    for (; begin + 1 < end && *begin < last_; ++begin) add(pairs_.data() + row_[*begin - first_], begin + 1);
}

namespace {

template <bool add, bool with_seen>
void expand(const IdPairSums& sums, const ListedAxis& b, const ListedAxis& c, Mass* cells, Mass* seen) {
    const auto put = [&](std::uint32_t vb, std::uint32_t vc, Mass mass) {
        Mass& cell = cells[vb * b.stride + vc * c.stride];
        cell = add ? cell + mass : mass;
        if constexpr (with_seen) seen[vb * b.parent_stride + vc * c.parent_stride] += mass;
    };
    Mass column[64] = {};  // masses by value of c, over the uncommon values of b; attributes with ids have at most 64 values
    Mass uncommon_b = 0;
    for (std::uint32_t i = 0; i + 1 < b.size; ++i) {
        const std::uint32_t vb = i + (i >= b.common);
        const Mass* pair = sums.pair(b.first_id + i) + c.first_id;
        const Mass single = sums.single(b.first_id + i);
        Mass uncommon_c = 0;
        for (std::uint32_t j = 0; j + 1 < c.size; ++j) {
            put(vb, j + (j >= c.common), pair[j]);
            column[j] += pair[j];
            uncommon_c += pair[j];
        }
        put(vb, c.common, single - uncommon_c);
        uncommon_b += single;
    }
    Mass rest = sums.total() - uncommon_b;  // rows with the common value of b
    for (std::uint32_t j = 0; j + 1 < c.size; ++j) {
        const Mass mass = sums.single(c.first_id + j) - column[j];
        put(b.common, j + (j >= c.common), mass);
        rest -= mass;
    }
    put(b.common, c.common, rest);
}

}  // namespace

void expand_pair(const IdPairSums& sums, const ListedAxis& b, const ListedAxis& c, bool add, Mass* cells,
                 Mass* seen) {
    if (seen)
        add ? expand<true, true>(sums, b, c, cells, seen) : expand<false, true>(sums, b, c, cells, seen);
    else
        add ? expand<true, false>(sums, b, c, cells, seen) : expand<false, false>(sums, b, c, cells, seen);
}

}  // namespace privmw
