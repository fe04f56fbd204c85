#include "core/products/tiles.hpp"

#include "core/products/tiles_of.hpp"

namespace privmw {

template <class T>
const Tiles<T>& tiles() {
    static const Tiles<T> best = [] {
#ifdef PRIVMW_TILES_AVX2
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return tiles_avx2<T>();
#endif
        return Tiles<T>{TilesOf<T, 16>::dots, TilesOf<T, 16>::combine};
    }();
    return best;
}

template const Tiles<float>& tiles<float>();
template const Tiles<double>& tiles<double>();

}  // namespace privmw
