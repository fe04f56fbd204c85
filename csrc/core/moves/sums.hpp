// The sums over cells of up to three attributes per record, relative to common values as scores are.
#pragma once

#include <span>

#include "core/moves/arranged.hpp"

namespace privmw {

class TablesOfSums {
  public:
    // marginals: IN, each of at most three attributes, none of which is drawn. slots: of the records.
    TablesOfSums(const std::vector<Arranged>& marginals, std::size_t slots, int threads);

    // sums: OUT, one per record.
    void sum(const Tile& tile, std::size_t count, Wrapping* sums) const;

  private:
    struct Triple {
        std::uint32_t slots[2], sizes[2];  // of the other attributes
        const Wrapping* values;
    };
    struct Pair {
        std::uint32_t slot, size;
        const Wrapping* values;
    };
    struct First {
        std::uint32_t slot = 0;
        const Wrapping* values = nullptr;  // one a code; null if there are none
        std::size_t pairs_begin = 0, pairs_end = 0, triples_begin = 0, triples_end = 0;
    };
    // Marginals of the same attributes.
    struct Group {
        std::span<const Arranged> marginals;
        std::size_t values_of_code;  // of the first side
        Wrapping* values;
    };

    std::vector<Group> make(std::uint32_t order, std::vector<Arranged>& marginals, int threads);
    static void fill(const Group& group, std::uint32_t order);

    Wrapping alone_ = 0;  // the part that all records share
    std::vector<First> firsts_;
    std::vector<Pair> pairs_;
    std::vector<Triple> triples_;
    std::unique_ptr<Wrapping[]> memory_[4];
};

}  // namespace privmw
