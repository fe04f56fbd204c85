#include "core/responses.hpp"

#include <algorithm>
#include <utility>

#include "core/parallel.hpp"

namespace privmw {

namespace {

constexpr std::size_t records_of_task = 8;

}  // namespace

Responses::Responses(std::vector<std::uint32_t> sizes, QueryList queries, std::vector<std::int64_t> weights)
    : sizes_(std::move(sizes)), literals_(sizes_.size()), weights_(std::move(weights)) {
    first_value_.push_back(0);
    for (const std::uint32_t size : sizes_) first_value_.push_back(first_value_.back() + size);
    for (std::size_t q = 0; q < weights_.size(); ++q) {
        const auto begin = static_cast<std::size_t>(queries.starts[q]);
        const auto end = static_cast<std::size_t>(queries.starts[q + 1]);
        order_.push_back(static_cast<std::uint32_t>(end - begin));
        for (std::size_t i = begin; i < end; ++i)
            literals_[static_cast<std::size_t>(queries.attributes[i])].push_back(
                {static_cast<std::uint32_t>(q), queries.values[i]});
    }
}

std::int64_t Responses::climb_one(const std::int64_t* terms, std::uint32_t* codes,
                                  std::vector<std::uint32_t>& unmet,
                                  std::vector<std::int64_t>& scores) const {
    // The number of unmet literals of each query.
    std::copy(order_.begin(), order_.end(), unmet.begin());
    for (std::size_t a = 0; a < sizes_.size(); ++a)
        for (const Literal& literal : literals_[a]) unmet[literal.query] -= codes[a] == literal.value;
    for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t a = 0; a < sizes_.size(); ++a) {
            const std::int64_t* const own = terms + first_value_[a];
            std::copy(own, own + sizes_[a], scores.begin());
            for (const Literal& literal : literals_[a])
                if (unmet[literal.query] == (codes[a] != literal.value))
                    scores[literal.value] += weights_[literal.query];
            const auto end = scores.begin() + static_cast<std::ptrdiff_t>(sizes_[a]);
            const auto best =
                static_cast<std::uint32_t>(std::max_element(scores.begin(), end) - scores.begin());
            const std::uint32_t now = codes[a];
            if (scores[best] == scores[now]) continue;
            for (const Literal& literal : literals_[a]) {
                unmet[literal.query] += literal.value == now;
                unmet[literal.query] -= literal.value == best;
            }
            codes[a] = best;
            moved = true;
        }
    }
    std::int64_t score = 0;
    for (std::size_t a = 0; a < sizes_.size(); ++a) score += terms[first_value_[a] + codes[a]];
    for (std::size_t q = 0; q < weights_.size(); ++q) score += unmet[q] == 0 ? weights_[q] : 0;
    return score;
}

void Responses::climb(std::span<const std::int64_t> terms, std::size_t groups, std::uint32_t* codes,
                      std::size_t records, int threads, std::int64_t* scores) const {
    const std::size_t largest = *std::max_element(sizes_.begin(), sizes_.end());
    const auto tasks = static_cast<std::int64_t>((records + records_of_task - 1) / records_of_task);
    for_each_task(tasks, threads, [&](std::int64_t task) {
        std::vector<std::uint32_t> unmet(weights_.size());
        std::vector<std::int64_t> of_values(largest);
        const std::size_t first = static_cast<std::size_t>(task) * records_of_task;
        for (std::size_t r = first; r < std::min(first + records_of_task, records); ++r) {
            const std::int64_t* const own = terms.data() + r * groups / records * first_value_.back();
            scores[r] = climb_one(own, codes + r * sizes_.size(), unmet, of_values);
        }
    });
}

}  // namespace privmw
