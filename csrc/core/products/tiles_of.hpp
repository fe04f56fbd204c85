// The tiles for vectors of some bytes. Each file that includes this is compiled for its own kind of
// processor: everything here has internal linkage, and nothing of the standard library is called.
#pragma once

#include "core/products/tiles.hpp"

namespace privmw {
namespace {

template <class T, int bytes>
struct TilesOf {
    typedef T Vector __attribute__((vector_size(bytes), aligned(sizeof(T)), may_alias));
    static constexpr std::size_t lanes = bytes / sizeof(T);
    static constexpr int vectors = panel_bytes / bytes;  // in a row of a panel
    // Twelve accumulators leave registers for the operands, where there are sixteen.
    static constexpr int left_rows = 4, right_rows = 3, panel_rows = 12 / vectors;

    static inline __attribute__((always_inline)) T sum(const Vector& v) {
        T parts[lanes];
        for (std::size_t i = 0; i < lanes; ++i) parts[i] = v[i];
        for (std::size_t half = lanes / 2; half > 0; half /= 2)
            for (std::size_t i = 0; i < half; ++i) parts[i] += parts[i + half];
        return parts[0];
    }

    template <int m, int n>
    static inline __attribute__((always_inline)) void dot_tile(const T* left, const T* right,
                                                               std::size_t length, T* out, std::size_t step) {
        Vector sums[m][n] = {};
        for (std::size_t k = 0; k < length; k += lanes) {
            Vector columns[n];
            for (int j = 0; j < n; ++j) columns[j] = *reinterpret_cast<const Vector*>(right + j * length + k);
            for (int i = 0; i < m; ++i) {
                const Vector row = *reinterpret_cast<const Vector*>(left + i * length + k);
                for (int j = 0; j < n; ++j) sums[i][j] += row * columns[j];
            }
        }
        for (int i = 0; i < m; ++i)
            for (int j = 0; j < n; ++j) out[i * step + j] += sum(sums[i][j]);
    }

    template <int n>
    static void dot_columns(const T* left, std::size_t rows, const T* right, std::size_t length, T* out,
                            std::size_t step) {
        std::size_t i = 0;
        for (; i + left_rows <= rows; i += left_rows)
            dot_tile<left_rows, n>(left + i * length, right, length, out + i * step, step);
        for (; i < rows; ++i) dot_tile<1, n>(left + i * length, right, length, out + i * step, step);
    }

    static void dots(const T* left, std::size_t rows, const T* right, std::size_t columns, std::size_t length,
                     T* out, std::size_t step) {
        std::size_t j = 0;
        for (; j + right_rows <= columns; j += right_rows)
            dot_columns<right_rows>(left, rows, right + j * length, length, out + j, step);
        for (; j < columns; ++j) dot_columns<1>(left, rows, right + j * length, length, out + j, step);
    }

    template <int m>
    static inline __attribute__((always_inline)) void combine_tile(const T* factors, std::size_t row_step,
                                                                   std::size_t term_step, std::size_t terms,
                                                                   const T* in, T* out) {
        Vector sums[m][vectors];
        for (int i = 0; i < m; ++i)
            for (int v = 0; v < vectors; ++v)
                sums[i][v] = *reinterpret_cast<const Vector*>(out + i * panel<T> + v * lanes);
        for (std::size_t j = 0; j < terms; ++j) {
            Vector row[vectors];
            for (int v = 0; v < vectors; ++v)
                row[v] = *reinterpret_cast<const Vector*>(in + j * panel<T> + v * lanes);
            for (int i = 0; i < m; ++i) {
                const T factor = factors[i * row_step + j * term_step];
                for (int v = 0; v < vectors; ++v) sums[i][v] += factor * row[v];
            }
        }
        for (int i = 0; i < m; ++i)
            for (int v = 0; v < vectors; ++v)
                *reinterpret_cast<Vector*>(out + i * panel<T> + v * lanes) = sums[i][v];
    }

    static void combine(const T* factors, std::size_t row_step, std::size_t term_step, std::size_t rows,
                        std::size_t terms, const T* in, T* out) {
        std::size_t i = 0;
        for (; i + panel_rows <= rows; i += panel_rows)
            combine_tile<panel_rows>(factors + i * row_step, row_step, term_step, terms, in,
                                     out + i * panel<T>);
        for (; i < rows; ++i)
            combine_tile<1>(factors + i * row_step, row_step, term_step, terms, in, out + i * panel<T>);
    }
};

}  // namespace
}  // namespace privmw
