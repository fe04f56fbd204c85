#include "core/marginals/costs.hpp"

#include <algorithm>

namespace privmw {

PairStatistics sample_pairs(const Columns& columns) {
    const IdLayout& layout = columns.layout();
    const std::size_t width = layout.ranked.size();
    PairStatistics statistics{Wiped<double>(width), std::vector<Wiped<double>>(width, Wiped<double>(width))};
    const std::size_t samples = std::min<std::size_t>(columns.rows(), 1024);
    const double each = samples ? static_cast<double>(columns.rows()) / static_cast<double>(samples) : 0;
    std::vector<std::size_t> uncommon;
    for (std::size_t s = 0; s < samples; ++s) {
        const auto row = static_cast<std::size_t>(static_cast<double>(s) * each);
        uncommon.clear();
        for (std::size_t p = 0; p < width; ++p) {
            const auto attribute = static_cast<std::size_t>(layout.ranked[p]);
            const bool common = with_codes(columns.column(attribute), [&](const auto* codes) {
                return codes[row] == columns.common(attribute);
            });
            if (!common) uncommon.push_back(p);
        }
        for (std::size_t j = 0; j < uncommon.size(); ++j) {
            const double partners = each * static_cast<double>(uncommon.size() - 1 - j);
            statistics.within_all[uncommon[j]] += partners;
            for (std::size_t i = 0; i < j; ++i) statistics.within[uncommon[i]][uncommon[j]] += partners;
        }
    }
    return statistics;
}

double pair_cells(const IdLayout& layout, std::size_t first, std::size_t last) {
    double cells = 0;
    for (std::size_t p = first; p < last; ++p)
        cells += static_cast<double>(layout.first[p + 1] - layout.first[p]) *
                 (layout.count() - layout.first[p + 1] + 1);
    return cells;
}

}  // namespace privmw
