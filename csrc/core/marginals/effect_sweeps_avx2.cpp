// The sweeps for processors with AVX2, which price four cells at a time: this file alone is compiled for
// them, and called only where the processor says that it has it. Empty elsewhere.
#include "core/marginals/effect_sweeps_of.hpp"

#ifdef PRIVMW_TILES_AVX2
namespace privmw {

EffectSweeps effect_sweeps_avx2() {
    return EffectSweepsHere::all();
}

}  // namespace privmw
#endif
