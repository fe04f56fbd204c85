// The sweeps for processors with AVX2: this file alone is compiled for them, without fused multiply-adds, and
// called only where the processor says that it has it. Empty elsewhere.
#include "core/moves/sweeps_of.hpp"

#ifdef PRIVMW_TILES_AVX2
namespace privmw {

MoveSweeps move_sweeps_avx2() {
    return MoveSweepsHere::all();
}

}  // namespace privmw
#endif
