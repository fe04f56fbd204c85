#include "core/marginals/marginals.hpp"

#include <algorithm>

#include "capi/guard.hpp"

// Owns its columns, so that handles may be freed in any order.
struct privmw_marginals {
    privmw::Columns columns;  // those that the marginals use
    privmw::Marginals marginals;

    privmw_marginals(std::vector<privmw::Column> used, std::size_t rows, const privmw::MarginalList& list,
                     int threads)
        : columns(std::move(used), rows, threads), marginals(columns, list, threads) {}
};

namespace privmw::capi {

namespace {

constexpr std::int64_t largest_order = 6;
constexpr std::uint64_t most_cells_of_one = std::uint64_t{1} << 40, most_cells = std::uint64_t{1} << 48;
constexpr std::int64_t most_mass = std::int64_t{1} << 62;
constexpr int largest_exponent = 2000;  // beyond every double, and within ldexp's

MarginalList checked_marginals(const std::vector<Column>& columns, const std::int32_t* attributes,
                               const std::int64_t* starts, std::size_t count) {
    require(starts[0] == 0, PRIVMW_VALUE);
    MarginalList list{{}, {0}};
    std::uint64_t all_cells = 0;
    for (std::size_t j = 0; j < count; ++j) {
        // Compared, not subtracted: differences may overflow.
        require(starts[j + 1] > starts[j] && starts[j + 1] <= starts[j] + largest_order, PRIVMW_VALUE);
        std::uint64_t cells = 1;
        std::int64_t last = -1;
        for (std::int64_t at = starts[j]; at < starts[j + 1]; ++at) {
            const std::int32_t attribute = attributes[at];
            require(attribute > last && static_cast<std::size_t>(attribute) < columns.size(), PRIVMW_VALUE);
            last = attribute;
            cells *= columns[attribute].size;  // below 2^40 times 2^32
            require(cells <= most_cells_of_one, PRIVMW_SIZE);
            list.attributes.push_back(static_cast<std::uint32_t>(attribute));
        }
        all_cells += cells;
        require(all_cells <= most_cells, PRIVMW_SIZE);
        list.starts.push_back(static_cast<std::size_t>(starts[j + 1]));
    }
    return list;
}

// The columns that the marginals use, in their order; the list's attributes become positions among them.
std::vector<Column> take_used(const std::vector<Column>& columns, MarginalList& list) {
    std::vector<std::uint32_t> used = list.attributes;
    std::sort(used.begin(), used.end());
    used.erase(std::unique(used.begin(), used.end()), used.end());
    std::vector<Column> taken;
    for (std::uint32_t attribute : used) taken.push_back(columns[attribute]);
    for (std::uint32_t& attribute : list.attributes)
        attribute =
            static_cast<std::uint32_t>(std::lower_bound(used.begin(), used.end(), attribute) - used.begin());
    return taken;
}

}  // namespace

void require_masses(const std::int64_t* masses, std::size_t count) {
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const auto mass = static_cast<std::uint64_t>(masses[i]);
        total += masses[i] < 0 ? 0 - mass : mass;  // at most 2^62 + 2^63
        require(total <= static_cast<std::uint64_t>(most_mass), PRIVMW_VALUE);
    }
}

}  // namespace privmw::capi

using namespace privmw;
using namespace privmw::capi;

privmw_status privmw_marginals_new(const privmw_columns* columns, const int32_t* attributes,
                                   const int64_t* starts, size_t count, int threads,
                                   privmw_marginals** out) noexcept {
    return guarded([&] {
        require_pointers({columns, attributes, starts, out});
        require_threads(threads);
        MarginalList list = checked_marginals(columns->columns, attributes, starts, count);
        const std::vector<Column> used = take_used(columns->columns, list);
        *out = new privmw_marginals(used, columns->rows, list, threads);
    });
}

void privmw_marginals_free(privmw_marginals* marginals) noexcept {
    delete marginals;
}

privmw_status privmw_marginals_cells(const privmw_marginals* marginals, size_t* cells) noexcept {
    return guarded([&] {
        require_pointers({marginals, cells});
        *cells = marginals->marginals.cells();
    });
}

privmw_status privmw_marginals_plan(const privmw_marginals* marginals, uint64_t ways[5]) noexcept {
    return guarded([&] {
        require_pointers({marginals, ways});
        const Plan& plan = marginals->marginals.plan();
        std::fill_n(ways, 5, 0);
        for (std::size_t at = 0; at < plan.requested; ++at) ++ways[static_cast<int>(plan.marginals[at].way)];
        ways[3] = plan.marginals.size() - plan.requested;
        ways[4] = marginals->marginals.bytes() + marginals->columns.bytes();
    });
}

privmw_status privmw_marginals_sum(const privmw_marginals* marginals, const int64_t* masses, size_t rows,
                                   int threads, int64_t* sums, size_t cells) noexcept {
    return guarded([&] {
        require_pointers({marginals, masses, sums});
        require_threads(threads);
        require(rows == marginals->columns.rows() && cells == marginals->marginals.cells(), PRIVMW_SIZE);
        require_masses(masses, rows);
        marginals->marginals.sum(masses, threads, sums);
    });
}

privmw_status privmw_marginals_add_changes(const privmw_marginals* marginals, const uint32_t* rows,
                                           const int64_t* changes, size_t count, int threads, int64_t* sums,
                                           size_t cells) noexcept {
    return guarded([&] {
        require_pointers({marginals, rows, changes, sums});
        require_threads(threads);
        require(count <= most_rows && cells == marginals->marginals.cells(), PRIVMW_SIZE);
        for (std::size_t i = 0; i < count; ++i) require(rows[i] < marginals->columns.rows(), PRIVMW_VALUE);
        require_masses(changes, count);
        for (std::size_t c = 0; c < cells; ++c)
            require(sums[c] > -most_mass && sums[c] < most_mass, PRIVMW_VALUE);
        marginals->marginals.add_changes({rows, count}, changes, threads, sums);
    });
}

privmw_status privmw_marginals_potentials(const privmw_marginals* marginals, const int64_t* values,
                                          size_t cells, int exponent, int threads, double* potentials,
                                          size_t rows) noexcept {
    return guarded([&] {
        require_pointers({marginals, values, potentials});
        require_threads(threads);
        require(rows == marginals->columns.rows() && cells == marginals->marginals.cells(), PRIVMW_SIZE);
        require(exponent >= -largest_exponent && exponent <= largest_exponent, PRIVMW_VALUE);
        marginals->marginals.potentials(values, exponent, threads, potentials);
    });
}
