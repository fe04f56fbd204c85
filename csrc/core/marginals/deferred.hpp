// Marginals that are planned at their first evaluation: cells evaluated by effects need no plan.
#pragma once

#include <mutex>
#include <optional>

#include "core/marginals/marginals.hpp"

namespace privmw {

class DeferredMarginals {
  public:
    // Keeps a reference to `columns`.
    DeferredMarginals(const Columns& columns, MarginalList workload, int threads)
        : columns_(columns), workload_(std::move(workload)), threads_(threads) {}

    const Columns& columns() const { return columns_; }
    const MarginalList& workload() const { return workload_; }

    // Planned at the first call; safe from several threads.
    const Marginals& planned() const {
        std::call_once(once_, [this] { planned_.emplace(columns_, workload_, threads_); });
        return *planned_;
    }

  private:
    const Columns& columns_;
    MarginalList workload_;
    int threads_;
    mutable std::once_flag once_;
    mutable std::optional<Marginals> planned_;
};

}  // namespace privmw
