// The potentials of rows: what a value for each cell of the workload makes for each row.
#include <algorithm>

#include "core/marginals.hpp"
#include "core/parallel.hpp"

namespace privmw {

namespace {

constexpr std::size_t block = 16384;  // rows: their potentials stay in L2 while marginal after marginal adds

}  // namespace

void Marginals::potentials(const double* values, int threads, double* potentials) const {
    std::vector<std::vector<Column>> columns(plan_.requested);
    for (std::size_t at = 0; at < plan_.requested; ++at)
        for (std::uint32_t a : plan_.marginals[at].attributes) columns[at].push_back(columns_.column(a));
    const std::size_t rows = columns_.rows();
    for_each_task(static_cast<std::int64_t>((rows + block - 1) / block), threads, [&](std::int64_t b) {
        const std::size_t first = static_cast<std::size_t>(b) * block, last = std::min(rows, first + block);
        std::fill(potentials + first, potentials + last, 0.0);
        for (std::size_t at = 0; at < plan_.requested; ++at) {
            const PlannedMarginal& marginal = plan_.marginals[at];
            add_values(columns[at], marginal.cells, values + marginal.sums, first, last, potentials);
        }
    });
}

}  // namespace privmw
