// Schoolbook arithmetic on natural numbers of any size.
#include "draw/natural.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace privmw::draw {

Natural::Natural(std::uint64_t value) {
    if (value != 0) words_.push_back(value);
}

Natural Natural::from_wide(Wide value) {
    return from_words({static_cast<std::uint64_t>(value), static_cast<std::uint64_t>(value >> 64)});
}

Natural Natural::from_words(Wiped<std::uint64_t> little_endian) {
    Natural result;
    result.words_ = std::move(little_endian);
    result.trim();
    return result;
}

Natural Natural::power_of_two(std::size_t exponent) {
    return Natural(1) << exponent;
}

void Natural::trim() {
    while (!words_.empty() && words_.back() == 0) words_.pop_back();
}

std::size_t Natural::bit_length() const {
    return words_.empty()
               ? 0
               : 64 * (words_.size() - 1) + static_cast<std::size_t>(std::bit_width(words_.back()));
}

Wide Natural::low_wide() const {
    const std::uint64_t high = words_.size() > 1 ? words_[1] : 0;
    return (static_cast<Wide>(high) << 64) | low_word();
}

std::strong_ordering Natural::operator<=>(const Natural& other) const {
    if (words_.size() != other.words_.size()) return words_.size() <=> other.words_.size();
    for (std::size_t i = words_.size(); i-- > 0;)
        if (words_[i] != other.words_[i]) return words_[i] <=> other.words_[i];
    return std::strong_ordering::equal;
}

Natural Natural::operator+(const Natural& other) const {
    const auto& longer = words_.size() >= other.words_.size() ? words_ : other.words_;
    const auto& shorter = words_.size() >= other.words_.size() ? other.words_ : words_;
    Wiped<std::uint64_t> sum(longer.size() + 1);
    Wide carry = 0;
    for (std::size_t i = 0; i < longer.size(); ++i) {
        carry += static_cast<Wide>(longer[i]) + (i < shorter.size() ? shorter[i] : 0);
        sum[i] = static_cast<std::uint64_t>(carry);
        carry >>= 64;
    }
    sum.back() = static_cast<std::uint64_t>(carry);
    return from_words(std::move(sum));
}

Natural Natural::operator-(const Natural& other) const {
    Wiped<std::uint64_t> difference(words_);
    std::uint64_t borrow = 0;
    for (std::size_t i = 0; i < words_.size(); ++i) {
        const Wide taken = static_cast<Wide>(i < other.words_.size() ? other.words_[i] : 0) + borrow;
        borrow = words_[i] < taken;
        difference[i] = static_cast<std::uint64_t>(words_[i] - taken);
    }
    return from_words(std::move(difference));
}

Natural Natural::operator*(const Natural& other) const {
    Wiped<std::uint64_t> product(words_.size() + other.words_.size());
    for (std::size_t i = 0; i < words_.size(); ++i) {
        Wide carry = 0;
        for (std::size_t j = 0; j < other.words_.size(); ++j) {
            // (2^64-1)^2 + 2 (2^64-1) = 2^128 - 1: never overflows.
            carry += static_cast<Wide>(words_[i]) * other.words_[j] + product[i + j];
            product[i + j] = static_cast<std::uint64_t>(carry);
            carry >>= 64;
        }
        product[i + other.words_.size()] = static_cast<std::uint64_t>(carry);
    }
    return from_words(std::move(product));
}

Natural Natural::operator/(const Natural& divisor) const {
    if (*this < divisor) return {};
    Wiped<std::uint64_t> quotient(words_.size());
    if (divisor.words_.size() == 1) {
        Wide remainder = 0;
        for (std::size_t i = words_.size(); i-- > 0;) {
            remainder = (remainder << 64) | words_[i];
            quotient[i] = static_cast<std::uint64_t>(remainder / divisor.words_[0]);
            remainder %= divisor.words_[0];
        }
        return from_words(std::move(quotient));
    }
    // Long division bit by bit, in place: the remainder has one word more than the divisor, so a doubling
    // fits.
    const std::size_t length = divisor.words_.size();
    Wiped<std::uint64_t> remainder(length + 1);
    for (std::size_t bit = bit_length(); bit-- > 0;) {
        for (std::size_t i = length; i > 0; --i)
            remainder[i] = (remainder[i] << 1) | (remainder[i - 1] >> 63);
        remainder[0] = (remainder[0] << 1) | ((words_[bit / 64] >> (bit % 64)) & 1);
        bool fits = remainder[length] != 0;
        if (!fits) {
            std::size_t i = length;
            while (i > 0 && remainder[i - 1] == divisor.words_[i - 1]) --i;
            fits = i == 0 || remainder[i - 1] > divisor.words_[i - 1];
        }
        if (!fits) continue;
        std::uint64_t borrow = 0;
        for (std::size_t i = 0; i < length; ++i) {
            const Wide taken = static_cast<Wide>(divisor.words_[i]) + borrow;
            borrow = remainder[i] < taken;
            remainder[i] = static_cast<std::uint64_t>(remainder[i] - taken);
        }
        remainder[length] -= borrow;
        quotient[bit / 64] |= std::uint64_t{1} << (bit % 64);
    }
    return from_words(std::move(quotient));
}

Natural Natural::operator<<(std::size_t bits) const {
    if (words_.empty()) return {};
    const std::size_t offset = bits / 64, part = bits % 64;
    Wiped<std::uint64_t> shifted(words_.size() + offset + 1);
    for (std::size_t i = 0; i < words_.size(); ++i) {
        const Wide moved = static_cast<Wide>(words_[i]) << part;
        shifted[i + offset] |= static_cast<std::uint64_t>(moved);
        shifted[i + offset + 1] |= static_cast<std::uint64_t>(moved >> 64);
    }
    return from_words(std::move(shifted));
}

Natural Natural::operator>>(std::size_t bits) const {
    const std::size_t offset = bits / 64, part = bits % 64;
    if (offset >= words_.size()) return {};
    Wiped<std::uint64_t> shifted(words_.size() - offset);
    for (std::size_t i = 0; i < shifted.size(); ++i) {
        const std::uint64_t above = i + offset + 1 < words_.size() ? words_[i + offset + 1] : 0;
        shifted[i] =
            static_cast<std::uint64_t>(((static_cast<Wide>(above) << 64) | words_[i + offset]) >> part);
    }
    return from_words(std::move(shifted));
}

Natural scaled_ratio(const Natural& numerator, const Natural& denominator, std::int64_t shift) {
    if (shift >= 0) return (numerator << static_cast<std::size_t>(shift)) / denominator;
    return numerator / (denominator << static_cast<std::size_t>(-shift));
}

}  // namespace privmw::draw
