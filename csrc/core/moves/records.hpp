// The records of a call, in tiles of columns, and which of their values are common.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>

#include "core/moves/tile.hpp"
#include "core/parallel.hpp"

namespace privmw {

constexpr std::uint32_t no_code = std::numeric_limits<std::uint32_t>::max();  // sizes are below 2^32
constexpr std::size_t tiles_block = 8;                                        // of a task

// The columns that the scores of some attributes need, in tiles. Their slots ascend by the share of records
// in which they are uncommon.
class MovedRecords {
  public:
    // needed: IN, which attributes. codes: IN, records x attributes.
    MovedRecords(const std::vector<std::uint32_t>& sizes, const std::vector<bool>& needed,
                 const std::uint32_t* codes, std::size_t records, int threads);

    std::size_t slots() const { return attributes_.size(); }
    std::size_t tiles() const { return (records + tile_records - 1) / tile_records; }
    std::size_t count(std::size_t t) const { return std::min(tile_records, records - t * tile_records); }
    std::uint32_t slot(std::uint32_t attribute) const { return slots_[attribute]; }
    std::uint32_t common(std::uint32_t slot) const { return commons_[slot]; }
    Tile tile(std::size_t t) const {
        return {codes_.get() + t * slots() * tile_records, uncommon_.get() + t * slots()};
    }

    // Sets the codes of an attribute, if it has a slot, for some records of a tile.
    void set(std::size_t t, std::uint32_t attribute, std::size_t from, const std::uint32_t* codes,
             std::size_t step, std::size_t count);

    // Calls visit(t) for each tile, where visit = make(), once a task.
    template <class Make>
    void each_tile(int threads, Make&& make) const {
        for_each_task(static_cast<std::int64_t>((tiles() + tiles_block - 1) / tiles_block), threads,
                      [&](std::int64_t b) {
                          auto&& visit = make();
                          const std::size_t first = static_cast<std::size_t>(b) * tiles_block;
                          for (std::size_t t = first; t < std::min(tiles(), first + tiles_block); ++t)
                              visit(t);
                      });
    }

    const std::size_t records;

  private:
    std::size_t width_;
    std::vector<std::uint32_t> slots_;                 // of attributes
    std::vector<std::uint32_t> attributes_, commons_;  // of slots
    std::unique_ptr<std::uint32_t[]> codes_;
    std::unique_ptr<std::uint64_t[]> uncommon_;
};

}  // namespace privmw
