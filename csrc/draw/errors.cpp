// The passes over all cells, in lanes: one chain of comparisons would wait for itself.
#include "draw/errors.hpp"

#include <algorithm>
#include <array>

namespace privmw::draw {

std::int64_t largest_of(const Errors& errors, std::size_t first, std::size_t last) {
    std::array<std::int64_t, 4> best{};  // errors are never negative
    std::size_t i = first;
    for (; i + 4 <= last; i += 4)
        for (std::size_t lane = 0; lane < 4; ++lane) best[lane] = std::max(best[lane], errors[i + lane]);
    for (; i < last; ++i) best[0] = std::max(best[0], errors[i]);
    return *std::max_element(best.begin(), best.end());
}

void largest_errors(const Errors& errors, std::span<const std::int64_t> starts, std::span<std::int64_t> out) {
    for (std::size_t j = 0; j < out.size(); ++j)
        out[j] =
            largest_of(errors, static_cast<std::size_t>(starts[j]), static_cast<std::size_t>(starts[j + 1]));
}

}  // namespace privmw::draw
