/* The kernels and the exact draws of privmw for every language that can call C.
 *
 * Every function returns a status. Arguments are checked before anything is written, so a wrong one is
 * a status, never a crash, provided that non-null pointers refer to as many values as their sizes say. Output
 * arrays must not overlap others. No exception leaves a function, and nothing is printed.
 *
 * Threads. Columns and marginals do not change once they are made: any number of threads may use them at a
 * time. A privmw_chacha20 and any other source of words belong to one thread at a time. There is no global
 * state. `threads` (1 to 1024) is how many threads a call may use; no result depends on it.
 *
 * Stability. Within one PRIVMW_ABI_MAJOR no function, type or number of this file changes or goes; functions
 * and statuses may be added, which raises PRIVMW_ABI_MINOR. Programs work with every library whose
 * privmw_abi() has their major and at least their minor. A new major is announced one release of privmw
 * before, in its changelog.
 */
#ifndef PRIVMW_H
#define PRIVMW_H

#include <stddef.h>
#include <stdint.h>

#define PRIVMW_ABI_MAJOR 1
#define PRIVMW_ABI_MINOR 0

#if defined(__GNUC__)
#define PRIVMW_API __attribute__((visibility("default")))
#else
#define PRIVMW_API
#endif

#ifdef __cplusplus
#define PRIVMW_NOEXCEPT noexcept
extern "C" {
#else
#define PRIVMW_NOEXCEPT
#endif

typedef int32_t privmw_status;
enum {
    PRIVMW_OK = 0,
    PRIVMW_NULL = 1,      /* a pointer must not be null */
    PRIVMW_SIZE = 2,      /* a size or a number of threads is out of range, or two sizes do not fit */
    PRIVMW_VALUE = 3,     /* a value is outside its domain: a code, a position, a mass, a scale */
    PRIVMW_RESCALE = 4,   /* the total of the masses left its range: privmw_rescale, then evaluate anew */
    PRIVMW_RESOURCES = 5, /* no memory or thread available */
    PRIVMW_ENTROPY = 6,   /* the operating system gave no entropy */
    PRIVMW_STUCK = 7,     /* the source repeats one word, or its words leave a draw without an end */
    PRIVMW_INTERNAL = 8   /* a defect of privmw: please report it */
};

PRIVMW_API uint32_t privmw_abi(void) PRIVMW_NOEXCEPT;                        /* major * 65536 + minor */
PRIVMW_API const char* privmw_version(void) PRIVMW_NOEXCEPT;                 /* of privmw, such as "0.1.0" */
PRIVMW_API const char* privmw_message(privmw_status status) PRIVMW_NOEXCEPT; /* never null */

/* ---- columns: codes of rows ---- */

typedef struct privmw_column {
    const void* codes; /* one per row, aligned, each below `size` */
    uint32_t width;    /* bytes of a code: 1, 2 or 4 */
    uint32_t size;     /* at least 1 */
} privmw_column;

/* Columns, checked. They keep views of the codes, which must stay as they are until the columns and all
 * marginals made of them are freed, in whatever order. 1 <= rows < 2^32. */
typedef struct privmw_columns privmw_columns;
PRIVMW_API privmw_status privmw_columns_new(const privmw_column* columns, size_t attributes, size_t rows,
                                            int threads, privmw_columns** out) PRIVMW_NOEXCEPT;
PRIVMW_API void privmw_columns_free(privmw_columns* columns) PRIVMW_NOEXCEPT; /* null is allowed */

/* The first occurrence of each distinct row, ascending by codes, and their counts. `found` is the number of
 * distinct rows; if it is above `room` the status is PRIVMW_SIZE, and nothing else is written. */
PRIVMW_API privmw_status privmw_distinct_rows(const privmw_column* columns, size_t attributes, size_t rows,
                                              int threads, size_t room, uint32_t* first, int64_t* counts,
                                              size_t* found) PRIVMW_NOEXCEPT;

/* Ascending rows where attributes[i] has values[i] for every i < count; `room` and `found` as above. */
PRIVMW_API privmw_status privmw_matching_rows(const privmw_columns* columns, const uint32_t* attributes,
                                              const uint32_t* values, size_t count, size_t room,
                                              uint32_t* rows, size_t* found) PRIVMW_NOEXCEPT;

/* ---- marginals: exact sums of masses by cells ---- */

/* Marginal j has the attributes attributes[starts[j]] .. attributes[starts[j + 1] - 1], 1 to 6 of them,
 * ascending. Its cells come in C order, the last attribute fastest, and the marginals one after the other; at
 * most 2^40 cells per marginal and 2^48 together. attributes: IN, starts[count]; starts: IN, count + 1, from
 * 0. Planned here, once; unused columns cost nothing. */
typedef struct privmw_marginals privmw_marginals;
PRIVMW_API privmw_status privmw_marginals_new(const privmw_columns* columns, const int32_t* attributes,
                                              const int64_t* starts, size_t count, int threads,
                                              privmw_marginals** out) PRIVMW_NOEXCEPT;
PRIVMW_API void privmw_marginals_free(privmw_marginals* marginals) PRIVMW_NOEXCEPT; /* null is allowed */
PRIVMW_API privmw_status privmw_marginals_cells(const privmw_marginals* marginals,
                                                size_t* cells) PRIVMW_NOEXCEPT;

/* How the plan evaluates: ways[0..2] marginals by tiles, by rare rows and by lists, ways[3] marginals added
 * to help others, ways[4] bytes allocated. */
PRIVMW_API privmw_status privmw_marginals_plan(const privmw_marginals* marginals,
                                               uint64_t ways[5]) PRIVMW_NOEXCEPT;

/* sums: OUT, one per cell. masses: IN, one per row, whose absolute values total at most 2^62. */
PRIVMW_API privmw_status privmw_marginals_sum(const privmw_marginals* marginals, const int64_t* masses,
                                              size_t rows, int threads, int64_t* sums,
                                              size_t cells) PRIVMW_NOEXCEPT;

/* Adds the changes of the masses of `count` rows to sums (IN and OUT, each below 2^62): the same bits as a
 * new sum. changes: IN, one per given row, whose absolute values total at most 2^62. */
PRIVMW_API privmw_status privmw_marginals_add_changes(const privmw_marginals* marginals, const uint32_t* rows,
                                                      const int64_t* changes, size_t count, int threads,
                                                      int64_t* sums, size_t cells) PRIVMW_NOEXCEPT;

/* The adjoint of sum: potentials (OUT, one per row) are 2^exponent times the sum of the values (IN, one per
 * cell) of the cells of a row, added modulo 2^64 and read as signed. -2000 <= exponent <= 2000. */
PRIVMW_API privmw_status privmw_marginals_potentials(const privmw_marginals* marginals, const int64_t* values,
                                                     size_t cells, int exponent, int threads,
                                                     double* potentials, size_t rows) PRIVMW_NOEXCEPT;

/* ---- weights: a distribution on rows ---- */

/* The mass of a row is its weight times 2^60, rounded; a rescaled distribution's masses total 2^58 to 2^62,
 * and an answer is a cell's sum over that total. rescale multiplies weights (IN and OUT; finite, none
 * negative, not all zero) by a power of two so that they total near 2^60. No row above zero becomes zero. */
PRIVMW_API privmw_status privmw_rescale(double* weights, size_t rows, int threads,
                                        int64_t* total) PRIVMW_NOEXCEPT;

/* masses: OUT, one per row, and their total. PRIVMW_RESCALE if weights must be rescaled first. */
PRIVMW_API privmw_status privmw_to_masses(const double* weights, size_t rows, int threads, int64_t* masses,
                                          int64_t* total) PRIVMW_NOEXCEPT;

/* Multiplies the weights of `count` ascending rows by factor, 2^-32 to 2^32. changes: OUT, one per given row,
 * for privmw_marginals_add_changes. total: IN and OUT, of all masses. On PRIVMW_RESCALE the weights are
 * multiplied, but changes and total are meaningless. PRIVMW_VALUE, after some have changed, if weights
 * were never rescaled. */
PRIVMW_API privmw_status privmw_multiply(double* weights, size_t rows, const uint32_t* which, size_t count,
                                         double factor, int threads, int64_t* changes,
                                         int64_t* total) PRIVMW_NOEXCEPT;

/* weights: OUT, base * exp(potentials - log_total), which total one. Nothing overflows, however large
 * potentials are: they must be finite; base finite, none negative, not all zero. */
PRIVMW_API privmw_status privmw_tilt(const double* base, const double* potentials, size_t rows, int threads,
                                     double* weights, double* log_total) PRIVMW_NOEXCEPT;

/* ---- random words ---- */

/* A source of independent uniform 64-bit words: a privmw_chacha20, numpy's bitgen_t (its state and
 * next_uint64), or your own. Anyone who can predict the words can remove the noise. Words that cannot be
 * random end a draw with PRIVMW_STUCK, and what it has written until then must not be used. */
typedef struct privmw_words {
    void* state;
    uint64_t (*next)(void* state);
} privmw_words;

/* ChaCha20 with fast key erasure. `new` is keyed by the operating system, and takes a new key in a child
 * process; `seeded` repeats itself, for experiments. key: IN, 32 bytes. */
typedef struct privmw_chacha20 privmw_chacha20;
PRIVMW_API privmw_status privmw_chacha20_new(privmw_chacha20** out) PRIVMW_NOEXCEPT;
PRIVMW_API privmw_status privmw_chacha20_seeded(const uint8_t* key, privmw_chacha20** out) PRIVMW_NOEXCEPT;
PRIVMW_API void privmw_chacha20_free(privmw_chacha20* generator)
    PRIVMW_NOEXCEPT; /* wipes it; null is allowed */
PRIVMW_API privmw_status privmw_chacha20_words(privmw_chacha20* generator, privmw_words* out) PRIVMW_NOEXCEPT;
PRIVMW_API privmw_status privmw_chacha20_fill(privmw_chacha20* generator, uint8_t* out,
                                              size_t count) PRIVMW_NOEXCEPT;

/* ---- exact draws: the sensitivity of counts and scores is the responsibility of the caller ---- */

/* Pr[x] proportional to exp(-x^2 / (2 sigma^2)), sigma^2 = numerator / denominator, both positive. out: OUT,
 * count. */
PRIVMW_API privmw_status privmw_discrete_gaussian(privmw_words words, uint64_t sigma2_numerator,
                                                  uint64_t sigma2_denominator, int64_t* out,
                                                  size_t count) PRIVMW_NOEXCEPT;

/* Pr[x] proportional to exp(-|x| / scale), scale = numerator / denominator, both positive, at most 2^40. */
PRIVMW_API privmw_status privmw_discrete_laplace(privmw_words words, uint64_t scale_numerator,
                                                 uint64_t scale_denominator, int64_t* out,
                                                 size_t count) PRIVMW_NOEXCEPT;

/* k distinct positions among `count` scores (1 <= k <= count < 2^31), the i-th chosen among those that the
 * first left, by permute-and-flip or the exponential mechanism with weights exp(-gamma (largest score -
 * score)), gamma = numerator / denominator, both positive: epsilon over twice the scores' sensitivity makes
 * one choice epsilon-DP. chosen: OUT, k. */
PRIVMW_API privmw_status privmw_select_permute_and_flip(privmw_words words, const int64_t* scores,
                                                        size_t count, uint64_t gamma_numerator,
                                                        uint64_t gamma_denominator, size_t k,
                                                        int64_t* chosen) PRIVMW_NOEXCEPT;
PRIVMW_API privmw_status privmw_select_exponential(privmw_words words, const int64_t* scores, size_t count,
                                                   uint64_t gamma_numerator, uint64_t gamma_denominator,
                                                   size_t k, int64_t* chosen) PRIVMW_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
