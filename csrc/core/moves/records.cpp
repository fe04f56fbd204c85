#include "core/moves/records.hpp"

namespace privmw {

namespace {

constexpr std::size_t sampled = 1024;        // records, to find the commonest values
constexpr std::uint32_t most_values = 4096;  // of an attribute with a common value
// An attribute has a common value if fewer records than this have another. Compared with none, a sweep
// over 8,000 records took 0.67 of the time with 1,024 three-way marginals of 67 attributes, and 0.6 with all
// those of ADULT; 0.6, 0.7 and 0.8 are as fast.
constexpr double uncommon_at_most = 0.5;

struct Common {
    std::uint32_t value = no_code;
    double uncommon = 1;  // the share of records with another value
};

Common common_of(const std::uint32_t* codes, std::size_t records, std::size_t width, std::uint32_t size,
                 std::vector<std::uint32_t>& counts) {
    if (size > most_values) return {};
    counts.assign(size, 0);
    const std::size_t step = (records + sampled - 1) / sampled;
    std::size_t seen = 0;
    for (std::size_t r = 0; r < records; r += step, ++seen) ++counts[codes[r * width]];
    const auto most = std::max_element(counts.begin(), counts.end());
    const double uncommon = 1 - static_cast<double>(*most) / static_cast<double>(seen);
    if (uncommon >= uncommon_at_most) return {no_code, uncommon};
    return {static_cast<std::uint32_t>(most - counts.begin()), uncommon};
}

}  // namespace

MovedRecords::MovedRecords(const std::vector<std::uint32_t>& sizes, const std::vector<bool>& needed,
                           const std::uint32_t* codes, std::size_t records, int threads)
    : records(records), width_(sizes.size()), slots_(width_, no_code) {
    std::vector<Common> commons(width_);
    std::vector<std::uint32_t> counts;
    for (std::uint32_t a = 0; a < width_; ++a) {
        if (!needed[a]) continue;
        attributes_.push_back(a);
        commons[a] = common_of(codes + a, records, width_, sizes[a], counts);
    }
    std::sort(attributes_.begin(), attributes_.end(), [&](std::uint32_t a, std::uint32_t b) {
        return std::pair(commons[a].uncommon, a) < std::pair(commons[b].uncommon, b);
    });
    for (std::size_t s = 0; s < attributes_.size(); ++s) {
        slots_[attributes_[s]] = static_cast<std::uint32_t>(s);
        commons_.push_back(commons[attributes_[s]].value);
    }
    codes_ = std::make_unique_for_overwrite<std::uint32_t[]>(tiles() * attributes_.size() * tile_records);
    uncommon_ = std::make_unique<std::uint64_t[]>(tiles() * attributes_.size());
    each_tile(threads, [&] {
        return [&](std::size_t t) {
            const std::uint32_t* const here = codes + t * tile_records * width_;
            for (const std::uint32_t a : attributes_) set(t, a, 0, here + a, width_, count(t));
        };
    });
}

void MovedRecords::set(std::size_t t, std::uint32_t attribute, std::size_t from, const std::uint32_t* codes,
                       std::size_t step, std::size_t count) {
    const std::uint32_t slot = slots_[attribute];
    if (slot == no_code) return;
    std::uint32_t* const column = codes_.get() + (t * slots() + slot) * tile_records + from;
    std::uint64_t bits = 0;
    for (std::size_t r = 0; r < count; ++r) {
        column[r] = codes[r * step];
        bits |= std::uint64_t{column[r] != commons_[slot]} << r;
    }
    const std::uint64_t all = ~std::uint64_t{0} >> (tile_records - count) << from;
    std::uint64_t& uncommon = uncommon_[t * slots() + slot];
    uncommon = (uncommon & ~all) | bits << from;
}

}  // namespace privmw
