// The tables of one attribute, rebuilt for each attribute that is drawn.
#pragma once

#include "core/moves/arranged.hpp"
#include "core/moves/sweeps.hpp"

namespace privmw {

// Growing memory that is not cleared.
template <class T>
class Space {
  public:
    T* of(std::size_t count) {
        if (count > count_) {
            memory_ = std::make_unique_for_overwrite<T[]>(count);
            count_ = count;
        }
        return memory_.get();
    }

  private:
    std::unique_ptr<T[]> memory_;
    std::size_t count_ = 0;
};

class TablesOfScores {
  public:
    // arranged: IN, the marginals of an attribute with `size` values, each of it and at most two others.
    void make(std::span<const Arranged> arranged, std::size_t size, const MovedRecords& records, int threads);

    ScoreTables scores;

  private:
    struct Fill {
        std::size_t begin, end;  // marginals whose sum the rows are; or one triple
        bool triple;
        Wrapping* rows;
    };
    // Kept between rebuilds.
    std::vector<const Arranged*> triples_, sums_;
    std::vector<Fill> fills_;
    Space<Wrapping> rows_;
};

}  // namespace privmw
