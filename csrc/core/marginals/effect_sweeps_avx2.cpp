// The sweeps for processors with AVX2, which price four cells at a time: only this file is compiled
// for them, and called if the processor has AVX2. Empty elsewhere.
#include "core/marginals/effect_sweeps_of.hpp"

#ifdef PRIVMW_TILES_AVX2
namespace privmw {

EffectSweeps effect_sweeps_avx2() {
    return EffectSweepsHere::all();
}

}  // namespace privmw
#endif
