// Keys from getrandom, buffers from ChaCha20, a new key in every child process.
#include "draw/keystream.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "draw/chacha20.hpp"
#include "wiped.hpp"

namespace privmw::draw {
namespace {

std::atomic<bool> entropy_fails{false};
std::atomic<std::uint64_t> forks{0};

const int watching_forks =
    pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });

// One, and zero in a child that was made without the handler above (_Fork, a bare clone): the kernel wipes
// the page. Where there is no such page, the handler watches alone.
std::atomic<std::uint8_t> unwatched{1};
std::atomic<std::uint8_t>* watch_page() {
#ifdef MADV_WIPEONFORK
    constexpr std::size_t bytes = 1;  // the kernel rounds up to a page
    void* const page = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return &unwatched;
    if (madvise(page, bytes, MADV_WIPEONFORK) == 0) return new (page) std::atomic<std::uint8_t>(1);
    munmap(page, bytes);
#endif
    return &unwatched;
}
std::atomic<std::uint8_t>& same_process = *watch_page();

// A memset that the optimiser may not drop.
// The block function leaves its key on the stack below its caller's frame; so this one lies over it.
[[gnu::noinline]] void wipe_stack() {
    std::uint8_t below[4096];
    wipe(below, sizeof below);
}

bool read_entropy(std::uint8_t* out, std::size_t count) {
    if (entropy_fails.load(std::memory_order_relaxed)) return false;
#if defined(__linux__)
    while (count > 0) {
        const ssize_t got = getrandom(out, count, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        out += got;
        count -= static_cast<std::size_t>(got);
    }
    return true;
#else
    return getentropy(out, count) == 0;
#endif
}

void load_key(Keystream& stream, const std::uint8_t* bytes) {
    for (int i = 0; i < 8; ++i) {
        std::memcpy(&stream.key[i], bytes + 4 * i, 4);
        if constexpr (std::endian::native == std::endian::big)
            stream.key[i] = __builtin_bswap32(stream.key[i]);
    }
}

void start(Keystream& stream, const std::uint8_t* key, bool seeded) {
    keystream_wipe(stream);
    load_key(stream, key);
    stream.position = Keystream::buffer_bytes;
    stream.seeded = seeded;
    stream.forks = forks.load(std::memory_order_relaxed);
}

void refill(Keystream& stream) {
    constexpr std::uint32_t nonce[3] = {0, 0, 0};
    chacha20_blocks(stream.key, nonce, 0, Keystream::buffer_bytes / 64, stream.buffer);
    wipe_stack();
    load_key(stream, stream.buffer);
    wipe(stream.buffer, Keystream::key_bytes);
    stream.position = Keystream::key_bytes;
}

bool forked(const Keystream& stream) {
    if (stream.seeded) return false;
    if (same_process.load(std::memory_order_acquire) == 0) [[unlikely]] {
        // In this order, so that no thread finds the page marked and the forks not yet counted.
        forks.fetch_add(1, std::memory_order_relaxed);
        same_process.store(1, std::memory_order_release);
    }
    return stream.forks != forks.load(std::memory_order_relaxed);
}

[[gnu::noinline, gnu::cold]] void rekey_or_end(Keystream& stream) {
    if (keystream_ready(stream)) return;
    std::fputs("privmw: no entropy from the operating system after a fork; ending the process\n", stderr);
    std::abort();
}

}  // namespace

bool keystream_from_os(Keystream& stream) {
    std::uint8_t key[32];
    const bool given = watching_forks == 0 && read_entropy(key, sizeof key);
    if (given) start(stream, key, false);
    wipe(key, sizeof key);
    return given;
}

void keystream_from_key(Keystream& stream, const std::uint8_t key[32]) {
    start(stream, key, true);
}

void keystream_wipe(Keystream& stream) {
    wipe(&stream, sizeof stream);
}

bool keystream_ready(Keystream& stream) {
    return !forked(stream) || keystream_from_os(stream);
}

std::uint64_t keystream_next64(void* state) {
    Keystream& stream = *static_cast<Keystream*>(state);
    if (forked(stream)) [[unlikely]]
        rekey_or_end(stream);
    if (stream.position == Keystream::buffer_bytes) [[unlikely]]
        refill(stream);
    std::uint64_t word;
    std::memcpy(&word, stream.buffer + stream.position, 8);
    std::memset(stream.buffer + stream.position, 0, 8);
    stream.position += 8;
    if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
    return word;
}

std::uint32_t keystream_next32(void* state) {
    Keystream& stream = *static_cast<Keystream*>(state);
    if (stream.has_half && !forked(stream)) {
        const std::uint32_t half = stream.half;
        stream.has_half = false;
        stream.half = 0;
        return half;
    }
    const std::uint64_t word = keystream_next64(state);
    stream.has_half = true;
    stream.half = static_cast<std::uint32_t>(word >> 32);
    return static_cast<std::uint32_t>(word);
}

double keystream_next_double(void* state) {
    return static_cast<double>(keystream_next64(state) >> 11) * 0x1p-53;
}

void keystream_fill(Keystream& stream, std::uint8_t* out, std::size_t count) {
    if (forked(stream)) rekey_or_end(stream);
    while (count > 0) {
        if (stream.position == Keystream::buffer_bytes) refill(stream);
        std::size_t whole = Keystream::buffer_bytes - stream.position;
        const std::size_t given = count < whole ? count : whole;
        std::memcpy(out, stream.buffer + stream.position, given);
        if (given < whole) whole = (given + 7) / 8 * 8;
        wipe(stream.buffer + stream.position, whole);
        stream.position += static_cast<std::uint32_t>(whole);
        out += given;
        count -= given;
    }
}

void fail_entropy(bool fail) {
    entropy_fails.store(fail);
}

}  // namespace privmw::draw
