// Tasks on several threads. Results do not depend on the order of tasks: each writes to its own memory or
// adds integers.
#pragma once

#include <cstdint>
#include <functional>

namespace privmw {

// Runs task(i) for i in [0, tasks), each once, on up to `threads` threads; the first exception is rethrown.
void for_each_task(std::int64_t tasks, int threads, const std::function<void(std::int64_t)>& task);

}  // namespace privmw
