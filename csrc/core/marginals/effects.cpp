#include "core/marginals/effects.hpp"

#include <algorithm>

#include "core/marginals/effect_sweeps.hpp"
#include "core/parallel.hpp"

namespace privmw {

void Effects::keep(std::span<const std::int64_t> kept) {
    std::vector<std::uint32_t> cell_of(kept.size());
    std::size_t next = 0;
    for (EffectSets::Member& member : sets_.members) {
        member.first_place = next;
        for (; next < kept.size() && static_cast<std::size_t>(kept[next]) < member.last_place; ++next)
            cell_of[next] = sets_.cell_of[kept[next]];
        member.last_place = next;
    }
    sets_.cell_of = std::move(cell_of);
}

std::size_t Effects::bytes() const {
    return lists_.bytes() +
           (sets_.parents.size() + sets_.ends.size() + sets_.cell_of.size()) * sizeof(std::uint32_t);
}

std::vector<double> Effects::by_cell(const double* prices) const {
    std::vector<double> found(cells_);
    for (const auto& member : sets_.members)
        for (std::size_t i = member.first_place; i < member.last_place; ++i)
            if (sets_.cell_of[i] < member.count) found[member.first + sets_.cell_of[i]] = prices[i];
    return found;
}

namespace {

// Kept between calls: fits make hundreds, and fresh pages cost more than writing to them.
thread_local std::vector<std::vector<Wrapping>> sum_storage, shared_storage;  // per task
thread_local std::vector<Wrapping> value_storage;

// Runs use(task, begin, end) for ranges of items.
template <class Use>
std::size_t share_items(std::size_t items, int threads, Use&& use) {
    const auto tasks = std::max<std::size_t>(1, std::min<std::size_t>(threads, items));
    for_each_task(static_cast<std::int64_t>(tasks), threads,
                  [&](std::int64_t t) { use(t, items * t / tasks, items * (t + 1) / tasks); });
    return tasks;
}

// Sums the results of all tasks into the first.
void add_up(std::vector<std::vector<Wrapping>>& storage, std::size_t tasks, std::size_t count) {
    for (std::size_t t = 1; t < tasks; ++t)
        for (std::size_t i = 0; i < count; ++i) storage[0][i] += storage[t][i];
}

}  // namespace

Wrapping* Effects::sum_effects(std::span<const Row> rows, const Mass* masses, int threads) const {
    auto& storage = sum_storage;
    storage.resize(std::max<std::size_t>(storage.size(), std::max(threads, 1)));
    const auto tasks = share_items(rows.size(), threads, [&](auto t, std::size_t begin, std::size_t end) {
        storage[t].assign(count_, 0);
        lists_.sum(rows.subspan(begin, end - begin), masses + begin, storage[t].data());
    });
    add_up(storage, tasks, count_);
    std::vector<Wrapping> scratch(sets_.scratch());
    effect_sweeps().sum_carried(sets_, scratch.data(), storage[0].data());
    return storage[0].data();
}

template <class Sweep>
void Effects::find_effects(int threads, Wrapping* effects, Sweep&& sweep) const {
    auto& storage = shared_storage;
    storage.resize(std::max<std::size_t>(storage.size(), std::max(threads, 1)));
    const auto tasks =
        share_items(sets_.members.size(), threads, [&](auto t, std::size_t begin, std::size_t end) {
            std::vector<Wrapping> scratch(sets_.scratch());
            storage[t].assign(sets_.shared, 0);
            sweep(begin, end, scratch.data(), storage[t].data());
        });
    add_up(storage, tasks, sets_.shared);
    std::ranges::copy(storage[0], effects);
    effect_sweeps().carry(sets_, effects);
}

void Effects::gather_effects(std::span<const Row> rows, const Wrapping* effects, int exponent, int threads,
                             double* potentials) const {
    share_items(rows.size(), threads, [&](auto, std::size_t begin, std::size_t end) {
        lists_.potentials(rows.subspan(begin, end - begin), effects, PowerOfTwo(exponent),
                          potentials + begin);
    });
}

void Effects::potentials(std::span<const Row> rows, const std::int64_t* values, int exponent, int threads,
                         double* potentials) const {
    std::vector<Wrapping>& effects = value_storage;
    effects.resize(count_);
    find_effects(threads, effects.data(), [&](auto begin, auto end, Wrapping* scratch, Wrapping* shared) {
        effect_sweeps().to_effects(sets_, begin, end, values, scratch, shared, effects.data());
    });
    gather_effects(rows, effects.data(), exponent, threads, potentials);
}

void Effects::sum(std::span<const Row> rows, const Mass* masses, int threads, Mass* sums) const {
    const Wrapping* const effects = sum_effects(rows, masses, threads);
    share_items(sets_.members.size(), threads, [&](auto, std::size_t begin, std::size_t end) {
        std::vector<Wrapping> scratch(sets_.scratch());
        effect_sweeps().to_places(sets_, begin, end, effects, scratch.data(), sums);
    });
}

void Effects::spread(std::span<const Row> rows, const Mass* masses, const double* prices, int unit,
                     int exponent, int threads, double* potentials) const {
    Wrapping* const effects = sum_effects(rows, masses, threads);
    find_effects(threads, effects, [&](auto begin, auto end, Wrapping* scratch, Wrapping* shared) {
        effect_sweeps().price(sets_, begin, end, prices, PowerOfTwo(-unit), scratch, shared, effects);
    });
    gather_effects(rows, effects, exponent, threads, potentials);
}

}  // namespace privmw
