#include "core/columns.hpp"

#include <algorithm>
#include <numeric>

#include "core/parallel.hpp"

namespace privmw {

namespace {

// A table of id pairs has count^2 / 2 cells of eight bytes: at most 8 MB, typically far less.
constexpr std::uint32_t most_ids = 1448;
constexpr std::uint32_t widest_with_ids = 64;

struct Commonest {
    std::uint32_t value = 0;  // the smallest one on ties
    std::size_t rows = 0;
};

Commonest commonest_value(const Column& column, std::size_t rows) {
    Commonest found;
    if (column.size <= std::max<std::size_t>(rows, 65536)) {
        Wiped<std::size_t> counts(column.size);
        with_codes(column, [&](const auto* codes) {
            for (std::size_t r = 0; r < rows; ++r) ++counts[codes[r]];
        });
        const auto most = std::max_element(counts.begin(), counts.end());
        return {static_cast<std::uint32_t>(most - counts.begin()), *most};
    }
    // Many more values than rows: one counter per value would take more memory than the data.
    std::vector<std::uint32_t> sorted(rows);
    with_codes(column, [&](const auto* codes) { std::copy_n(codes, rows, sorted.begin()); });
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0, j = 0; i < rows; i = j) {
        while (j < rows && sorted[j] == sorted[i]) ++j;
        if (j - i > found.rows) found = {sorted[i], j - i};
    }
    return found;
}

// The rows of every id, from the ids of every row.
void list_by_id(UncommonIds& ids) {
    const std::size_t rows = ids.starts.size() - 1;
    ids.list_starts.assign(ids.count + 1, 0);
    for (std::size_t row = 0; row < rows; ++row)
        for (const Id* id = ids.begin(row); id < ids.end(row); ++id) ++ids.list_starts[*id + 1];
    for (std::uint32_t id = 0; id < ids.count; ++id) ids.list_starts[id + 1] += ids.list_starts[id];
    ids.list_rows.resize(ids.list_starts.back());
    ids.list_places.resize(ids.list_starts.back());
    auto next = ids.list_starts;
    for (std::size_t row = 0; row < rows; ++row)
        for (const Id* id = ids.begin(row); id < ids.end(row); ++id) {
            const std::uint64_t at = next[*id]++;
            ids.list_rows[at] = static_cast<Row>(row);
            ids.list_places[at] = static_cast<std::uint16_t>(id - ids.begin(row));
        }
}

}  // namespace

OwnedColumn gather(const Column& column, const Row* rows, std::size_t count) {
    OwnedColumn taken;
    taken.storage.resize((count * column.width + 3) / 4);
    with_codes(column, [&](const auto* codes) {
        using Code = std::remove_const_t<std::remove_pointer_t<decltype(codes)>>;
        auto* out = reinterpret_cast<Code*>(taken.storage.data());
        for (std::size_t i = 0; i < count; ++i) out[i] = codes[rows[i]];
    });
    taken.column = {taken.storage.data(), column.width, column.size};
    return taken;
}

Columns::Columns(std::vector<Column> columns, std::size_t rows, int threads)
    : columns_(std::move(columns)), rows_(rows), common_(columns_.size()), uncommon_rows_(columns_.size()) {
    for_each_task(static_cast<std::int64_t>(columns_.size()), threads, [&](std::int64_t a) {
        const Commonest commonest = commonest_value(columns_[a], rows_);
        common_[a] = commonest.value;
        uncommon_rows_[a] = rows_ - commonest.rows;
    });
    rank_attributes();
    number_ids();
}

void Columns::rank_attributes() {
    std::vector<std::size_t> order(columns_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](auto a, auto b) { return uncommon_rows_[a] < uncommon_rows_[b]; });
    rank_.resize(order.size());
    for (std::size_t r = 0; r < order.size(); ++r) rank_[order[r]] = static_cast<std::uint32_t>(r);
}

void Columns::number_ids() {
    std::vector<int> narrow;
    for (std::size_t a = 0; a < columns_.size(); ++a)
        if (columns_[a].size >= 2 && columns_[a].size <= widest_with_ids)
            narrow.push_back(static_cast<int>(a));
    std::stable_sort(narrow.begin(), narrow.end(),
                     [&](int a, int b) { return columns_[a].size < columns_[b].size; });
    std::uint32_t total = 0;
    std::size_t kept = 0;
    while (kept < narrow.size() && total + columns_[narrow[kept]].size - 1 <= most_ids)
        total += columns_[narrow[kept++]].size - 1;
    narrow.resize(kept);
    std::sort(narrow.begin(), narrow.end(), [&](int a, int b) { return rank_[a] < rank_[b]; });

    layout_.position.assign(columns_.size(), -1);
    layout_.first.assign(1, 0);
    for (std::size_t p = 0; p < narrow.size(); ++p) {
        layout_.position[narrow[p]] = static_cast<int>(p);
        layout_.first.push_back(layout_.first.back() + columns_[narrow[p]].size - 1);
    }
    layout_.ranked = std::move(narrow);
}

const UncommonIds& Columns::uncommon_ids() const {
    std::lock_guard lock(ids_mutex_);
    if (ids_) return *ids_;
    auto built = std::make_unique<UncommonIds>();
    built->count = layout_.count();
    // Columns are read in blocks of rows that stay in cache; within a block a row's ids come in rank order.
    constexpr std::size_t block = 1024;
    std::vector<std::uint32_t> lengths(block);
    std::vector<Id> scratch(block * layout_.ranked.size());
    std::size_t total = rows_ * UncommonIds::padding;
    for (int a : layout_.ranked) total += uncommon_rows_[a];
    built->ids.reserve(total);
    built->starts.reserve(rows_ + 1);
    const std::size_t width = layout_.ranked.size();
    for (std::size_t row = 0; row < rows_; row += block) {
        const std::size_t count = std::min(block, rows_ - row);
        std::fill_n(lengths.begin(), count, 0);
        for (std::size_t p = 0; p < width; ++p) {
            const Column& column = columns_[layout_.ranked[p]];
            const std::uint32_t common = common_[layout_.ranked[p]];
            const std::uint32_t first = layout_.first[p];
            with_codes(column, [&](const auto* codes) {
                for (std::size_t i = 0; i < count; ++i) {
                    const std::uint32_t value = codes[row + i];
                    // Always written, kept only if uncommon: no branch to mispredict.
                    scratch[i * width + std::min<std::size_t>(lengths[i], width - 1)] =
                        static_cast<Id>(first + value - (value > common));
                    lengths[i] += value != common;
                }
            });
        }
        for (std::size_t i = 0; i < count; ++i) {
            built->starts.push_back(built->ids.size());
            built->ids.insert(built->ids.end(), scratch.data() + i * width,
                              scratch.data() + i * width + lengths[i]);
            built->ids.insert(built->ids.end(), UncommonIds::padding, static_cast<Id>(layout_.count()));
        }
    }
    built->starts.push_back(built->ids.size());

    list_by_id(*built);
    ids_ = std::move(built);
    return *ids_;
}

std::unique_ptr<Columns> Columns::take(std::span<const Row> rows) const {
    std::unique_ptr<Columns> taken(new Columns());
    taken->rows_ = rows.size();
    taken->common_ = common_;
    taken->rank_ = rank_;
    taken->layout_ = layout_;
    taken->uncommon_rows_.resize(columns_.size());
    for (std::size_t a = 0; a < columns_.size(); ++a) {
        taken->owned_.push_back(gather(columns_[a], rows.data(), rows.size()));
        taken->columns_.push_back(taken->owned_.back().column);
        taken->uncommon_rows_[a] = with_codes(taken->columns_[a], [&](const auto* codes) {
            return rows.size() - std::count(codes, codes + rows.size(), common_[a]);
        });
    }
    std::lock_guard lock(ids_mutex_);
    if (ids_) {
        taken->ids_ = std::make_unique<UncommonIds>();
        taken->ids_->count = ids_->count;
        taken->ids_->starts.push_back(0);
        for (Row row : rows) {
            taken->ids_->ids.insert(taken->ids_->ids.end(), ids_->begin(row),
                                    ids_->end(row) + UncommonIds::padding);
            taken->ids_->starts.push_back(taken->ids_->ids.size());
        }
        list_by_id(*taken->ids_);
    }
    return taken;
}

std::vector<Row> Columns::rows_with_uncommon(std::size_t attribute) const {
    std::vector<Row> found(uncommon_rows_[attribute] + 1);  // one extra: the last write may be past the end
    std::size_t n = 0;
    with_codes(columns_[attribute], [&](const auto* codes) {
        const std::uint32_t common = common_[attribute];
        for (std::size_t r = 0; r < rows_; ++r) {
            found[n] = static_cast<Row>(r);
            n += codes[r] != common;
        }
    });
    found.resize(n);
    return found;
}

std::size_t Columns::bytes() const {
    std::size_t total = 0;
    for (const auto& column : owned_) total += column.storage.size() * 4;
    std::lock_guard lock(ids_mutex_);
    if (ids_) total += ids_->bytes();
    return total;
}

std::size_t UncommonIds::bytes() const {
    return ids.size() * sizeof(Id) + starts.size() * 8 + list_starts.size() * 8 +
           list_rows.size() * (sizeof(Row) + sizeof(std::uint16_t));
}

}  // namespace privmw
