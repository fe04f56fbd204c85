// Shared by all functions of privmw.h: statuses instead of exceptions, and checks of arguments.
#pragma once

#include <initializer_list>
#include <memory>
#include <new>
#include <stdexcept>
#include <system_error>

#include "capi/privmw.h"
#include "core/columns.hpp"
#include "draw/words.hpp"

// Checked views. Marginals own what evaluation allocates.
struct privmw_columns {
    std::vector<privmw::Column> columns;
    std::size_t rows;
};

namespace privmw::capi {

constexpr std::size_t most_rows = ~Row{0};  // 2^32 - 1
constexpr int most_threads = 1024;

// Thrown for wrong arguments; becomes the status of the function.
struct Refusal {
    privmw_status status;
};

inline void require(bool met, privmw_status otherwise) {
    if (!met) throw Refusal{otherwise};
}

inline void require_pointers(std::initializer_list<const void*> pointers) {
    for (const void* pointer : pointers) require(pointer != nullptr, PRIVMW_NULL);
}

inline void require_threads(int threads) {
    require(threads >= 1 && threads <= most_threads, PRIVMW_SIZE);
}

// The columns after every check, codes included: kernels index memory by them.
std::vector<Column> checked_columns(const privmw_column* columns, std::size_t attributes, std::size_t rows);

// Refuses values whose absolute values total more than 2^62.
void require_masses(const std::int64_t* masses, std::size_t count);

// Runs body(); whatever it throws becomes a status.
template <class Body>
privmw_status guarded(const Body& body) noexcept {
    try {
        body();
        return PRIVMW_OK;
    } catch (const Refusal& refusal) {
        return refusal.status;
    } catch (const std::bad_alloc&) {
        return PRIVMW_RESOURCES;
    } catch (const std::length_error&) {
        return PRIVMW_RESOURCES;
    } catch (const std::system_error&) {
        return PRIVMW_RESOURCES;
    } catch (const draw::StuckGenerator&) {
        return PRIVMW_STUCK;
    } catch (const std::invalid_argument&) {
        return PRIVMW_VALUE;
    } catch (...) {
        return PRIVMW_INTERNAL;
    }
}

}  // namespace privmw::capi
