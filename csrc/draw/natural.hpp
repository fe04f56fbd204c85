// Natural numbers of any size, with the operations that certified comparisons need. Simple rather than fast:
// used at set-up, and when 64 bits do not decide (about once in 2^50 draws).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "wiped.hpp"

namespace privmw::draw {

__extension__ typedef unsigned __int128 Wide;

class Natural {
  public:
    Natural() = default;
    Natural(std::uint64_t value);  // NOLINT: a machine word is a natural number
    static Natural from_wide(Wide value);
    static Natural from_words(Wiped<std::uint64_t> little_endian);
    static Natural power_of_two(std::size_t exponent);

    bool is_zero() const { return words_.empty(); }
    std::size_t bit_length() const;
    std::uint64_t low_word() const { return words_.empty() ? 0 : words_[0]; }
    Wide low_wide() const;  // the value modulo 2^128

    std::strong_ordering operator<=>(const Natural& other) const;
    bool operator==(const Natural& other) const = default;

    Natural operator+(const Natural& other) const;
    Natural operator-(const Natural& other) const;  // requires *this >= other
    Natural operator*(const Natural& other) const;
    Natural operator/(const Natural& divisor) const;  // the floor; requires divisor > 0
    Natural operator<<(std::size_t bits) const;
    Natural operator>>(std::size_t bits) const;

  private:
    void trim();

    Wiped<std::uint64_t> words_;  // little endian, no leading zero word; zero is empty
};

// floor(numerator * 2^shift / denominator), shift of either sign.
Natural scaled_ratio(const Natural& numerator, const Natural& denominator, std::int64_t shift);

}  // namespace privmw::draw
