// The ChaCha20 block function of RFC 8439, several blocks at once. Pure: key, nonce and counter in, bytes
// out.
#pragma once

#include <cstddef>
#include <cstdint>

namespace privmw::draw {

// Blocks counter, counter + 1, ... of the key stream, 64 bytes each. The same bytes on every processor.
void chacha20_blocks(const std::uint32_t key[8],    // IN, little-endian words
                     const std::uint32_t nonce[3],  // IN
                     std::uint32_t counter, std::size_t blocks,
                     std::uint8_t* out);  // OUT, 64 * blocks bytes

// The same by the portable code alone, whatever the processor has: for the tests.
void chacha20_blocks_portable(const std::uint32_t key[8], const std::uint32_t nonce[3], std::uint32_t counter,
                              std::size_t blocks, std::uint8_t* out);

// As many of the blocks as come in eights, and how many: compiled for AVX2, to be called only where there is
// AVX2.
std::size_t chacha20_blocks_avx2(const std::uint32_t key[8], const std::uint32_t nonce[3],
                                 std::uint32_t counter, std::size_t blocks, std::uint8_t* out);

}  // namespace privmw::draw
