// ChaCha20, eight blocks at once, for processors with AVX2: this file alone is compiled for them (-mavx2),
// and called only where the processor says that it has it.
#include <immintrin.h>

#include "draw/chacha20.hpp"
#include "draw/chacha20_lanes.hpp"

namespace privmw::draw {
namespace {

typedef std::uint32_t Lanes8 __attribute__((vector_size(32)));

struct Avx2 {
    typedef Lanes8 Vector;
    static constexpr std::size_t lanes = 8;
    template <int bits>
    static inline __attribute__((always_inline)) void rotate(Vector& x) {
        if constexpr (bits == 16 || bits == 8) {
            // A rotation by whole bytes is one shuffle.
            const __m256i order =
                bits == 16 ? _mm256_setr_epi8(2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13,  //
                                              2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13)
                           : _mm256_setr_epi8(3, 0, 1, 2, 7, 4, 5, 6, 11, 8, 9, 10, 15, 12, 13, 14,  //
                                              3, 0, 1, 2, 7, 4, 5, 6, 11, 8, 9, 10, 15, 12, 13, 14);
            x = reinterpret_cast<Vector>(_mm256_shuffle_epi8(reinterpret_cast<__m256i>(x), order));
        } else {
            x = (x << bits) | (x >> (32 - bits));
        }
    }
    // Two 8 x 8 transpositions: words 0 to 7 and 8 to 15 of eight blocks.
    static inline __attribute__((always_inline)) void store(const Vector words[16], std::uint8_t* out) {
        for (int half = 0; half < 2; ++half) {
            __m256i pair[8], quad[8];
            for (int i = 0; i < 4; ++i) {
                const auto even = reinterpret_cast<__m256i>(words[8 * half + 2 * i]);
                const auto odd = reinterpret_cast<__m256i>(words[8 * half + 2 * i + 1]);
                pair[2 * i] = _mm256_unpacklo_epi32(even, odd);
                pair[2 * i + 1] = _mm256_unpackhi_epi32(even, odd);
            }
            for (int i = 0; i < 2; ++i) {
                quad[4 * i] = _mm256_unpacklo_epi64(pair[4 * i], pair[4 * i + 2]);
                quad[4 * i + 1] = _mm256_unpackhi_epi64(pair[4 * i], pair[4 * i + 2]);
                quad[4 * i + 2] = _mm256_unpacklo_epi64(pair[4 * i + 1], pair[4 * i + 3]);
                quad[4 * i + 3] = _mm256_unpackhi_epi64(pair[4 * i + 1], pair[4 * i + 3]);
            }
            std::uint8_t* to = out + 32 * half;
            for (int b = 0; b < 4; ++b) {
                _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 64 * b),
                                    _mm256_permute2x128_si256(quad[b], quad[4 + b], 0x20));
                _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 64 * (b + 4)),
                                    _mm256_permute2x128_si256(quad[b], quad[4 + b], 0x31));
            }
        }
    }
};

}  // namespace

std::size_t chacha20_blocks_avx2(const std::uint32_t key[8], const std::uint32_t nonce[3],
                                 std::uint32_t counter, std::size_t blocks, std::uint8_t* out) {
    std::size_t done = 0;
    for (; blocks - done >= Avx2::lanes; done += Avx2::lanes)
        run<Avx2>(key, nonce, counter + static_cast<std::uint32_t>(done), out + 64 * done);
    return done;
}

}  // namespace privmw::draw
