// Memory that is overwritten before it is given back: freed scratch would else return, full of secrets, in
// someone's next allocation. Every module may use it; it knows nothing of its contents.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

namespace privmw {

inline void wipe(void* memory, std::size_t bytes) {
    std::memset(memory, 0, bytes);
    asm volatile("" : : "r"(memory) : "memory");  // else a store that is never read may be left out
}

template <class T>
struct WipingAllocator {
    using value_type = T;

    WipingAllocator() = default;
    template <class U>
    WipingAllocator(const WipingAllocator<U>&) {}

    T* allocate(std::size_t count) { return std::allocator<T>().allocate(count); }
    void deallocate(T* memory, std::size_t count) {
        wipe(memory, count * sizeof(T));
        std::allocator<T>().deallocate(memory, count);
    }
    bool operator==(const WipingAllocator&) const { return true; }
};

template <class T>
using Wiped = std::vector<T, WipingAllocator<T>>;

}  // namespace privmw
