// The twenty rounds with one block per lane of a vector, for any vector type. Internal to the ChaCha20 files,
// each of which is compiled for its own processor: everything here stays inside the file that includes it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace privmw::draw {
namespace {

// "expand 32-byte k"
constexpr std::uint32_t sigma[4] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};

template <class Engine, class Vector>
inline __attribute__((always_inline)) void quarter_round(Vector& a, Vector& b, Vector& c, Vector& d) {
    a += b, d ^= a, Engine::template rotate<16>(d);
    c += d, b ^= c, Engine::template rotate<12>(b);
    a += b, d ^= a, Engine::template rotate<8>(d);
    c += d, b ^= c, Engine::template rotate<7>(b);
}

// Engine::lanes blocks.
template <class Engine>
inline __attribute__((always_inline)) void run(const std::uint32_t key[8], const std::uint32_t nonce[3],
                                               std::uint32_t counter, std::uint8_t* out) {
    typedef typename Engine::Vector Vector;
    Vector start[16], x[16];
    for (int i = 0; i < 4; ++i) start[i] = Vector{} + sigma[i];
    for (int i = 0; i < 8; ++i) start[4 + i] = Vector{} + key[i];
    Vector counters{};
    for (std::size_t lane = 0; lane < Engine::lanes; ++lane)
        counters[lane] = counter + static_cast<std::uint32_t>(lane);
    start[12] = counters;
    for (int i = 0; i < 3; ++i) start[13 + i] = Vector{} + nonce[i];
    for (int i = 0; i < 16; ++i) x[i] = start[i];
    for (int round = 0; round < 20; round += 2) {
        quarter_round<Engine>(x[0], x[4], x[8], x[12]);
        quarter_round<Engine>(x[1], x[5], x[9], x[13]);
        quarter_round<Engine>(x[2], x[6], x[10], x[14]);
        quarter_round<Engine>(x[3], x[7], x[11], x[15]);
        quarter_round<Engine>(x[0], x[5], x[10], x[15]);
        quarter_round<Engine>(x[1], x[6], x[11], x[12]);
        quarter_round<Engine>(x[2], x[7], x[8], x[13]);
        quarter_round<Engine>(x[3], x[4], x[9], x[14]);
    }
    for (int i = 0; i < 16; ++i) x[i] += start[i];
    Engine::store(x, out);
}

}  // namespace
}  // namespace privmw::draw
