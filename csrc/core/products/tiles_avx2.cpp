// The tiles for processors with AVX2 and FMA: this file alone is compiled for them, with fused multiply-adds,
// and called only where the processor says that it has both. Empty elsewhere.
#include "core/products/tiles_of.hpp"

#ifdef PRIVMW_TILES_AVX2
namespace privmw {

template <class T>
Tiles<T> tiles_avx2() {
    return {TilesOf<T, 32>::dots, TilesOf<T, 32>::combine};
}

template Tiles<float> tiles_avx2<float>();
template Tiles<double> tiles_avx2<double>();

}  // namespace privmw
#endif
