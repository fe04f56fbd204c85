#include "core/moves/sweeps.hpp"

#include "core/moves/sweeps_of.hpp"

namespace privmw {

const MoveSweeps& move_sweeps() {
    static const MoveSweeps best = [] {
#ifdef PRIVMW_TILES_AVX2
        if (__builtin_cpu_supports("avx2")) return move_sweeps_avx2();
#endif
        return MoveSweepsHere::all();
    }();
    return best;
}

}  // namespace privmw
