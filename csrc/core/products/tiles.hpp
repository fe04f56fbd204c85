// Matrix products of small blocks, compiled per kind of processor. Operands fit the first-level cache and
// need no packing.
#pragma once

#include <cstddef>

namespace privmw {

constexpr std::size_t panel_bytes = 64;  // a row of a panel: 16 floats or 8 doubles
template <class T>
constexpr std::size_t panel = panel_bytes / sizeof(T);

template <class T>
struct Tiles {
    // out[i * step + j] += sum over k < length of left[i * length + k] * right[j * length + k].
    // length: a multiple of the panel.
    void (*dots)(const T* left, std::size_t rows, const T* right, std::size_t columns, std::size_t length,
                 T* out, std::size_t step);
    // out[i][.] += sum over j < terms of factors[i * row_step + j * term_step] * in[j][.], panels of rows.
    void (*combine)(const T* factors, std::size_t row_step, std::size_t term_step, std::size_t rows,
                    std::size_t terms, const T* in, T* out);
};

// The fastest version that the processor supports.
template <class T>
const Tiles<T>& tiles();

#ifdef PRIVMW_TILES_AVX2
template <class T>
Tiles<T> tiles_avx2();
#endif

}  // namespace privmw
