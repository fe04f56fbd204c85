#include "core/marginals/effect_sweeps_of.hpp"

namespace privmw {

const EffectSweeps& effect_sweeps() {
    static const EffectSweeps best = [] {
#ifdef PRIVMW_TILES_AVX2
        if (__builtin_cpu_supports("avx2")) return effect_sweeps_avx2();
#endif
        return EffectSweepsHere::all();
    }();
    return best;
}

}  // namespace privmw
