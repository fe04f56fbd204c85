// Discrete Laplace and discrete Gaussian noise, and rational coins. The time depends slightly on the integer
// drawn.
#pragma once

#include <cstdint>
#include <span>

#include "draw/decay.hpp"

namespace privmw::draw {

// A scale (sigma for the Gaussian) of at most 2^40 keeps every integer of the samplers within its width.
bool laplace_scale_fits(const Natural& numerator, const Natural& denominator);
bool gaussian_sigma2_fits(const Natural& numerator, const Natural& denominator);

// Pr[x] proportional to exp(-|x| / scale), scale = numerator / denominator.
class DiscreteLaplace {
  public:
    DiscreteLaplace(const Natural& scale_numerator, const Natural& scale_denominator);
    DiscreteLaplace(const DiscreteLaplace&) = delete;  // strip_ refers to decay_
    void draw(const WordSource& words, std::span<std::int64_t> out) const;

  private:
    Decay decay_;
    std::uint64_t width_;
    Geometric strip_;
};

// Pr[x] proportional to exp(-x^2 / (2 sigma^2)), sigma^2 = numerator / denominator.
class DiscreteGaussian {
  public:
    DiscreteGaussian(const Natural& sigma2_numerator, const Natural& sigma2_denominator);
    DiscreteGaussian(const DiscreteGaussian&) = delete;  // strip_ refers to decay_
    void draw(const WordSource& words, std::span<std::int64_t> out) const;

  private:
    Decay decay_;
    std::uint64_t width_;
    Geometric strip_;
};

// True with probability numerator / denominator <= 1.
class Bernoulli {
  public:
    Bernoulli(Natural numerator, Natural denominator);
    bool operator()(const WordSource& words) const {
        if (certain_) return true;  // without a word
        const std::uint64_t word = words.next();
        return word != first_ ? word < first_ : settle(words);
    }

  private:
    bool settle(const WordSource& words) const;

    Natural numerator_, denominator_;
    std::uint64_t first_;  // floor(2^64 p)
    bool certain_;         // p = 1
};

}  // namespace privmw::draw
