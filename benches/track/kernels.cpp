// One call of each kernel on fixed data, for callgrind to count (instructions.py): what is counted is what
// happens inside the functions track_*; making the data is not. Words come from a plain generator, so that a
// draw's count is the draw's. One thread. `kernels ROWS`: how long the data are.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <utility>

#include "core/least_squares.hpp"
#include "core/marginals/marginals.hpp"
#if __has_include("core/moves.hpp")  // not in the oldest commits that are counted
#include "core/moves.hpp"
#define HAS_MOVES
#endif
#include "core/projection.hpp"
#include "core/rows.hpp"
#include "core/tilt.hpp"
#include "core/weights.hpp"
#include "draw/chacha20.hpp"
#include "draw/noise.hpp"
#include "draw/selection.hpp"

using namespace privmw;

namespace {

constexpr double no_limit = std::numeric_limits<double>::infinity();

// SplitMix64: the same words on every machine.
std::uint64_t next_word(void* state) {
    std::uint64_t z = *static_cast<std::uint64_t*>(state) += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

struct Words {
    std::uint64_t state;
    draw::WordSource source{&state, &next_word};
    explicit Words(std::uint64_t seed) : state(seed) {}
    std::uint64_t below(std::uint64_t bound) { return draw::uniform_below(source, bound); }
    double unit() { return static_cast<double>(source.next() >> 11) * 0x1p-53; }
};

// Rows of bytes. A value is 0, the common one, unless one of `often` chances in 256 makes it another.
struct Data {
    std::vector<std::vector<std::uint8_t>> codes;
    std::vector<Column> columns;
    Data(std::size_t rows, std::size_t attributes, std::uint64_t seed, bool sparse) : codes(attributes) {
        Words words(seed);
        for (std::size_t a = 0; a < attributes; ++a) {
            const std::uint64_t size = sparse ? 2 + a % 7 : 8, often = sparse ? 8 + 5 * (a % 12) : 256;
            codes[a].resize(rows);
            for (auto& code : codes[a]) {
                const std::uint64_t value = words.below(size);
                code = static_cast<std::uint8_t>(words.below(256) < often ? value : 0);
            }
            columns.push_back({codes[a].data(), 1, static_cast<std::uint32_t>(size)});
        }
    }
};

// Triples of neighbours at distances up to `reach`.
MarginalList triples(std::uint32_t attributes, std::uint32_t reach) {
    MarginalList list;
    list.starts.push_back(0);
    for (std::uint32_t a = 0; a < attributes; ++a)
        for (std::uint32_t b = a + 1; b < attributes && b <= a + reach; ++b)
            for (std::uint32_t c = b + 1; c < attributes && c <= b + reach; ++c) {
                list.attributes.insert(list.attributes.end(), {a, b, c});
                list.starts.push_back(list.attributes.size());
            }
    return list;
}

void require_way(const Marginals& marginals, Way way, const char* name) {
    std::size_t count = 0;
    for (std::size_t j = 0; j < marginals.plan().requested; ++j)
        count += marginals.plan().marginals[j].way == way;
    std::fprintf(stderr, "%s: %zu of %zu marginals\n", name, count, marginals.plan().requested);
    if (2 * count < marginals.plan().requested) std::exit(2);
}

}  // namespace

#ifdef HAS_MOVES
// Old commits draw one attribute a call.
template <class Some>
inline void redraw_one(const Some& moves, const std::int64_t* values, std::uint32_t* codes,
                       std::size_t records, const Weighing& weighing, const std::uint64_t* words) {
    if constexpr (requires { moves.redraw(values, -40, codes, records, 3, weighing, words, 1); }) {
        moves.redraw(values, -40, codes, records, 3, weighing, words, 1);
    } else {
        const typename Some::Draw draw{3, weighing, words};
        moves.redraw(values, -40, codes, records, {&draw, 1}, 1);
    }
}
#endif

// Each is one kernel's door: not inlined, so that callgrind sees it come and go.
#define TRACKED extern "C" __attribute__((noinline)) void

TRACKED track_marginals_by_tiles(const Marginals& of, const Mass* masses, Mass* sums) {
    of.sum(masses, 1, sums);
}
TRACKED track_marginals_by_rare(const Marginals& of, const Mass* masses, Mass* sums) {
    of.sum(masses, 1, sums);
}
TRACKED track_marginals_by_lists(const Marginals& of, const Mass* masses, Mass* sums) {
    of.sum(masses, 1, sums);
}
TRACKED track_plan(const Columns& columns, const MarginalList& list) {
    Marginals(columns, list, 1);
}
TRACKED track_add_changes(const Marginals& of, std::span<const Row> rows, const Mass* changes, Mass* sums) {
    of.add_changes(rows, changes, 1, sums);
}
TRACKED track_potentials(const Marginals& of, const std::int64_t* values, double* out) {
    of.potentials(values, 0, 1, out);
}
TRACKED track_distinct_rows(const Data& data, std::size_t rows, std::size_t& found) {
    found = distinct_rows(data.columns, rows, 1).first.size();
}
TRACKED track_groups_alike(const Columns& columns, const QueryList& queries, std::uint32_t* groups) {
    groups_alike(columns, queries, groups);
}
TRACKED track_gram(const Incidence& incidence, const double* weights, double* matrix) {
    incidence.gram(weights, 1, matrix);
}
TRACKED track_multiply(double* weights, std::span<const Row> rows, Mass* changes) {
    multiply(weights, rows, 1.25, 1, changes);
}
TRACKED track_tilt(const double* base, const double* potentials, std::size_t rows, double* out) {
    tilt(base, potentials, most_potential(base, potentials, rows, 1), rows, 1, out);
}
#ifdef HAS_MOVES
TRACKED track_redraw(const Moves& moves, const std::int64_t* values, std::uint32_t* codes,
                     std::size_t records, const Weighing& weighing, const std::uint64_t* words) {
    redraw_one(moves, values, codes, records, weighing, words);
}
#endif
TRACKED track_gaussian(const draw::WordSource& words, std::span<std::int64_t> out) {
    draw::DiscreteGaussian(draw::Natural(12345), draw::Natural(7)).draw(words, out);
}
TRACKED track_laplace(const draw::WordSource& words, std::span<std::int64_t> out) {
    draw::DiscreteLaplace(draw::Natural(1234), draw::Natural(7)).draw(words, out);
}
TRACKED track_permute_and_flip(const draw::WordSource& words, draw::StoredScores scores) {
    draw::select_permute_and_flip(words, scores, {}, draw::Decay(draw::Natural(1), draw::Natural(50)), 5);
}
TRACKED track_exponential(const draw::WordSource& words, draw::StoredScores scores) {
    draw::select_exponential(words, scores, {}, draw::Decay(draw::Natural(1), draw::Natural(50)), 5);
}
TRACKED track_chacha20(std::span<std::uint8_t> out) {
    const std::uint32_t key[8] = {1, 2, 3}, nonce[3] = {};
    draw::chacha20_blocks(key, nonce, 0, out.size() / 64, out.data());
}
TRACKED track_nnls(const Tallies& tallies, const FitTargets& rows, const FitTargets& queries, double* weights,
                   double* multipliers, Solution& solution) {
    solution = solve(tallies, rows, queries, {1e-9, 100, no_limit}, weights, multipliers);
}

int main(int given, char** arguments) {
    Words words(1);
    if (given != 2) return 1;
    const std::size_t rows = std::strtoul(arguments[1], nullptr, 10);
    const Data sparse(rows, 30, 2, true), dense(rows, 12, 3, false);
    const Columns sparse_columns(sparse.columns, rows, 1), dense_columns(dense.columns, rows, 1);
    const Marginals tiles(dense_columns, triples(12, 4), 1), lists(sparse_columns, triples(30, 30), 1);
    const MarginalList few = triples(30, 2);
    const Marginals rare(sparse_columns, few, 1);
    require_way(tiles, Way::tiles, "tiles");
    require_way(rare, Way::rare, "rare");
    require_way(lists, Way::lists, "lists");

    std::vector<Mass> masses(rows), sums(std::max({tiles.cells(), rare.cells(), lists.cells()}));
    for (auto& mass : masses) mass = static_cast<Mass>(words.below(1 << 20));
    track_plan(sparse_columns, few);
    track_marginals_by_tiles(tiles, masses.data(), sums.data());
    track_marginals_by_rare(rare, masses.data(), sums.data());
    track_marginals_by_lists(lists, masses.data(), sums.data());

    std::vector<Row> some;
    for (Row row = 0; row < rows; row += 10) some.push_back(row);
    std::vector<Mass> changes(rows, 17);
    track_add_changes(lists, some, changes.data(), sums.data());

    std::vector<std::int64_t> values(sums.size());
    for (auto& value : values) value = static_cast<std::int64_t>(words.below(1 << 20));
    std::vector<double> potentials(rows), weights(rows), base(rows);
    track_potentials(lists, values.data(), potentials.data());

    std::size_t found = 0;
    track_distinct_rows(sparse, rows, found);

    QueryList queries;
    queries.starts.push_back(0);
    for (std::uint32_t a = 0; a < 24; ++a) {
        queries.attributes.insert(queries.attributes.end(), {a, a + 1});
        queries.values.insert(queries.values.end(), {1, 0});
        queries.starts.push_back(queries.attributes.size());
    }
    std::vector<std::uint32_t> groups(rows);
    track_groups_alike(sparse_columns, queries, groups.data());
    std::vector<Row> every(rows);
    for (Row row = 0; row < rows; ++row) every[row] = row;
    const Matches matches = incidence_of_groups(sparse_columns, every, queries, 1);
    const Incidence incidence(matches.starts, matches.queries, queries.size());
    std::vector<double> matrix(queries.size() * queries.size());
    for (auto& weight : base) weight = (0.5 + words.unit()) / static_cast<double>(rows);
    track_gram(incidence, base.data(), matrix.data());

    weights = base;
    track_multiply(weights.data(), every, changes.data());
    for (auto& potential : potentials) potential = 4 * words.unit();
    track_tilt(base.data(), potentials.data(), rows, weights.data());

#ifdef HAS_MOVES
    const std::size_t records = rows / 6;
    std::vector<std::uint32_t> sizes, codes(records * 12), kept(records, 0);
    for (const auto& column : dense.columns) sizes.push_back(column.size);
    const MarginalList close = triples(12, 4);
    const Moves moves(sizes, close);
    for (std::size_t i = 0; i < codes.size(); ++i)
        codes[i] = static_cast<std::uint32_t>(words.below(sizes[i % 12]));
    std::vector<std::uint64_t> random(records);
    for (auto& word : random) word = words.source.next();
    const std::vector<double> flat(sizes[3], 1.0);
    track_redraw(moves, values.data(), codes.data(), records, {kept.data(), 0.5, flat}, random.data());
#endif

    std::vector<std::int64_t> noise(6 * rows);
    track_gaussian(words.source, noise);
    track_laplace(words.source, noise);
    std::vector<std::int64_t> scores(15 * rows);
    for (auto& score : scores) score = static_cast<std::int64_t>(words.below(1000));
    track_permute_and_flip(words.source, scores);
    track_exponential(words.source, scores);
    std::vector<std::uint8_t> bytes(64 * (rows / 2));
    track_chacha20(bytes);

    // A histogram of 9 x 24 cells measured with its sum and margins: non-negative least squares.
    const auto tallies = tallies_of_histogram({{9, 24}, {0, 1}, {0, 0, 1, 2}}, {}, {});
    std::vector<double> noisy(216), answers(tallies->count()), fitted(216), multipliers(tallies->count());
    for (auto& cell : noisy) cell = 20 * words.unit() - 8;
    tallies->sums(noisy.data(), answers.data());
    for (auto& answer : answers) answer += 10 * words.unit() - 5;
    const double one = 1, zero = 0, above = no_limit, below = -no_limit;
    Solution solution;
    track_nnls(*tallies, {noisy.data(), {&one, 0}, {&zero, 0}, {&above, 0}},
               {answers.data(), {&one, 0}, {&below, 0}, {&above, 0}}, fitted.data(), multipliers.data(),
               solution);
    if (!(solution.left < 1e-9)) return 3;
    std::fprintf(stderr, "%zu distinct rows, %d steps of nnls\n", found, solution.steps);
    return 0;
}
