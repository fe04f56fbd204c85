#include "core/moves/tables.hpp"

namespace privmw {

namespace {

// Rows of one value for each value of the attribute but the first, from which they are counted; then zeros.
struct Shape {
    std::size_t size, stride;
    void add(const Wrapping* cells, std::size_t step, Wrapping* row) const {
        for (std::size_t v = 1; v < size; ++v) row[v - 1] += cells[v * step] - cells[0];
    }
};

// rows: OUT, one a value of the last side of all these marginals. The row of its common value is
// subtracted from the others.
void fill_partner(std::span<const Arranged* const> marginals, const Shape& shape, Wrapping* rows) {
    const Side& last = marginals[0]->last();
    std::fill_n(rows, last.size * shape.stride, 0);
    for (const Arranged* marginal : marginals) {
        const Side& first = marginal->sides[0];
        const Wrapping* const cells =
            marginal->cells + (marginal->others == 2 ? first.common * first.stride : 0);
        for (std::size_t c = 0; c < last.size; ++c)
            shape.add(cells + c * marginal->last().stride, marginal->stride, rows + c * shape.stride);
    }
    if (last.common == no_code) return;
    const Wrapping* const common = rows + last.common * shape.stride;
    for (std::size_t c = 0; c < last.size; ++c)
        if (c != last.common)
            for (std::size_t v = 0; v < shape.stride; ++v) rows[c * shape.stride + v] -= common[v];
}

// rows: OUT, one for each pair of values of the sides; none is read of the first side's common value.
void fill_triple(const Arranged& marginal, const Shape& shape, Wrapping* row) {
    const Side &first = marginal.sides[0], &second = marginal.sides[1];
    const std::size_t step = marginal.stride;
    for (std::size_t b = 0; b < first.size; ++b)
        for (std::size_t c = 0; c < second.size; ++c, row += shape.stride) {
            if (b == first.common) continue;
            const Wrapping* const cells = marginal.cells + b * first.stride + c * second.stride;
            for (std::size_t v = 1; v < shape.size; ++v) row[v - 1] = cells[v * step] - cells[0];
            for (std::size_t v = shape.size - 1; v < shape.stride; ++v) row[v] = 0;
            if (first.common == no_code) continue;
            const Wrapping* const common = marginal.cells + first.common * first.stride + c * second.stride;
            for (std::size_t v = 1; v < shape.size; ++v) row[v - 1] -= common[v * step] - common[0];
        }
}

}  // namespace

void TablesOfScores::make(std::span<const Arranged> arranged, std::size_t size, const MovedRecords& records,
                          int threads) {
    const Shape shape{size, row_stride(size)};
    scores.stride = shape.stride;

    // The marginals summed in the rows of each partner, and its triples.
    triples_.clear();
    sums_.clear();
    std::size_t rows = 1;
    for (const Arranged& marginal : arranged) {
        const Side &first = marginal.sides[0], &second = marginal.sides[1];
        if (marginal.others == 2) {
            triples_.push_back(&marginal);
            rows += std::size_t{first.size} * second.size;
        }
        if (marginal.others == 1 || (marginal.others == 2 && first.common != no_code))
            sums_.push_back(&marginal);
    }
    std::sort(triples_.begin(), triples_.end(),
              [](const Arranged* a, const Arranged* b) { return a->sides[0].slot < b->sides[0].slot; });
    std::sort(sums_.begin(), sums_.end(),
              [](const Arranged* a, const Arranged* b) { return a->last().slot < b->last().slot; });
    for (std::size_t i = 0; i < sums_.size(); ++i)
        if (!i || sums_[i]->last().slot != sums_[i - 1]->last().slot) rows += sums_[i]->last().size;

    Wrapping* const alone = rows_.of(rows * shape.stride);
    Wrapping* next = alone + shape.stride;
    fills_.clear();
    scores.partners.clear();
    scores.triples.clear();
    std::size_t sum = 0, triple = 0;
    for (std::uint32_t slot = 0; slot < records.slots(); ++slot) {
        ScoreTables::Partner partner{slot, nullptr, triple, triple};
        const std::size_t begin = sum;
        while (sum < sums_.size() && sums_[sum]->last().slot == slot) ++sum;
        if (sum > begin) {
            partner.rows = next;
            fills_.push_back({begin, sum, false, next});
            next += sums_[begin]->last().size * shape.stride;
        }
        for (; triple < triples_.size() && triples_[triple]->sides[0].slot == slot; ++triple) {
            const Side &first = triples_[triple]->sides[0], &second = triples_[triple]->sides[1];
            scores.triples.push_back({second.slot, second.size, next});
            fills_.push_back({triple, triple + 1, true, next});
            next += first.size * second.size * shape.stride;
        }
        partner.end = triple;
        if (partner.rows || partner.end > partner.begin) scores.partners.push_back(partner);
    }
    // Small tables are filled before a thread would start.
    for_each_task(static_cast<std::int64_t>(fills_.size()), rows * shape.stride < alone_below ? 1 : threads,
                  [&](std::int64_t i) {
                      const Fill& fill = fills_[i];
                      if (fill.triple)
                          fill_triple(*triples_[fill.begin], shape, fill.rows);
                      else
                          fill_partner(std::span(sums_).subspan(fill.begin, fill.end - fill.begin), shape,
                                       fill.rows);
                  });
    std::fill_n(alone, shape.stride, 0);
    for (const Arranged& marginal : arranged)
        if (marginal.others == 0) shape.add(marginal.cells, marginal.stride, alone);
    for (const ScoreTables::Partner& partner : scores.partners) {
        const std::uint32_t common = records.common(partner.slot);
        if (partner.rows && common != no_code)
            for (std::size_t v = 0; v < shape.stride; ++v)
                alone[v] += partner.rows[common * shape.stride + v];
    }
    scores.alone = alone;
}

}  // namespace privmw
