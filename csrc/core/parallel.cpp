#include "core/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace privmw {

namespace {

// std::jthread, which the C++ library of macOS lacks.
struct JoinedThreads {
    std::vector<std::thread> threads;
    ~JoinedThreads() {
        for (auto& thread : threads) thread.join();
    }
};

}  // namespace

void for_each_task(std::int64_t tasks, int threads, const std::function<void(std::int64_t)>& task) {
    const int workers = static_cast<int>(std::min<std::int64_t>(threads, tasks));
    if (workers <= 1) {
        for (std::int64_t i = 0; i < tasks; ++i) task(i);
        return;
    }
    std::atomic<std::int64_t> next{0};
    std::exception_ptr failure;
    std::mutex failure_mutex;
    auto work = [&] {
        try {
            for (std::int64_t i; (i = next.fetch_add(1)) < tasks;) task(i);
        } catch (...) {
            std::lock_guard lock(failure_mutex);
            if (!failure) failure = std::current_exception();
            next = tasks;  // the others stop at their next task
        }
    };
    {
        JoinedThreads pool;
        for (int w = 1; w < workers; ++w) pool.threads.emplace_back(work);
        work();
    }
    if (failure) std::rethrow_exception(failure);
}

}  // namespace privmw
