// An endless stream of random words from ChaCha20 with fast key erasure. Knows the operating system, no
// Python.
//
// A buffer of 64 blocks is drawn from the key; its first 32 bytes become the next key at once, the rest is
// returned and wiped. Reading the memory later reveals no earlier output.
#pragma once

#include <cstddef>
#include <cstdint>

namespace privmw::draw {

struct Keystream {
    static constexpr std::size_t buffer_bytes = 4096, key_bytes = 32;

    std::uint32_t key[8];
    std::uint32_t position;  // of the next word in the buffer, in bytes
    std::uint32_t half;      // the upper half of a word whose lower half was given out
    bool has_half;
    bool seeded;
    std::uint64_t forks;  // of this process when the key was drawn
    alignas(32) std::uint8_t buffer[buffer_bytes];
};

// Keyed by the operating system. False if it gives no entropy: the stream must then not be used.
bool keystream_from_os(Keystream& stream);
void keystream_from_key(Keystream& stream, const std::uint8_t key[32]);
void keystream_wipe(Keystream& stream);

// After a fork, a stream of the operating system takes a new key before its next word. This does so now, and
// returns whether there was entropy; without this call the next word ends the process if there is none.
bool keystream_ready(Keystream& stream);

// The function types of numpy's bitgen_t; `state` is a Keystream.
std::uint64_t keystream_next64(void* state);
std::uint32_t keystream_next32(void* state);
double keystream_next_double(void* state);

// The bytes of ceil(count / 8) words.
void keystream_fill(Keystream& stream, std::uint8_t* out, std::size_t count);

// For the tests: makes the operating system's entropy fail. It can do nothing else.
void fail_entropy(bool fail);

}  // namespace privmw::draw
