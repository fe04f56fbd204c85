// ChaCha20 with one block per vector lane: 4 lanes anywhere, 8 where the processor has AVX2 (asked at run
// time).
#include "draw/chacha20.hpp"

#include <bit>
#include <cstring>

#include "draw/chacha20_lanes.hpp"

namespace privmw::draw {
namespace {

typedef std::uint32_t Lanes4 __attribute__((vector_size(16)));

struct Portable {
    typedef Lanes4 Vector;
    static constexpr std::size_t lanes = 4;
    template <int bits>
    static inline __attribute__((always_inline)) void rotate(Vector& x) {
        x = (x << bits) | (x >> (32 - bits));
    }
    // Lane b of words[i] is word i of block b.
    static inline __attribute__((always_inline)) void store(const Vector words[16], std::uint8_t* out) {
        for (std::size_t b = 0; b < lanes; ++b)
            for (std::size_t i = 0; i < 16; ++i) {
                std::uint32_t word = words[i][b];
                if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap32(word);
                std::memcpy(out + 64 * b + 4 * i, &word, 4);
            }
    }
};

}  // namespace

void chacha20_blocks_portable(const std::uint32_t key[8], const std::uint32_t nonce[3], std::uint32_t counter,
                              std::size_t blocks, std::uint8_t* out) {
    for (; blocks >= Portable::lanes; blocks -= Portable::lanes, out += 64 * Portable::lanes) {
        run<Portable>(key, nonce, counter, out);
        counter += Portable::lanes;
    }
    if (blocks == 0) return;
    std::uint8_t last[64 * Portable::lanes];
    run<Portable>(key, nonce, counter, last);
    std::memcpy(out, last, 64 * blocks);
}

void chacha20_blocks(const std::uint32_t key[8], const std::uint32_t nonce[3], std::uint32_t counter,
                     std::size_t blocks, std::uint8_t* out) {
    std::size_t done = 0;
#ifdef PRIVMW_AVX2
    static const bool has_avx2 = __builtin_cpu_supports("avx2");
    if (has_avx2) done = chacha20_blocks_avx2(key, nonce, counter, blocks, out);
#endif
    chacha20_blocks_portable(key, nonce, counter + static_cast<std::uint32_t>(done), blocks - done,
                             out + 64 * done);
}

}  // namespace privmw::draw
