# privmw.h for Cython: `from privmw.kernels cimport privmw_tilt`. Functions come from capsules of the installed package,
# checked by signature at import, so nothing is linked; types come from privmw.h (`privmw.kernels.get_include()`).
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef extern from "privmw.h" nogil:
    ctypedef int32_t privmw_status
    enum:
        PRIVMW_OK
        PRIVMW_NULL
        PRIVMW_SIZE
        PRIVMW_VALUE
        PRIVMW_RESCALE
        PRIVMW_RESOURCES
        PRIVMW_ENTROPY
        PRIVMW_STUCK
        PRIVMW_INTERNAL
    ctypedef struct privmw_column:
        const void* codes
        uint32_t width
        uint32_t size
    ctypedef struct privmw_words:
        void* state
        uint64_t (*next)(void* state) noexcept
    ctypedef struct privmw_columns
    ctypedef struct privmw_marginals
    ctypedef struct privmw_chacha20

cdef uint32_t privmw_abi() noexcept nogil
cdef const char* privmw_version() noexcept nogil
cdef const char* privmw_message(privmw_status status) noexcept nogil
cdef privmw_status privmw_columns_new(const privmw_column* columns, size_t attributes, size_t rows,
    int threads, privmw_columns** out) noexcept nogil
cdef void privmw_columns_free(privmw_columns* columns) noexcept nogil
cdef privmw_status privmw_distinct_rows(const privmw_column* columns, size_t attributes, size_t rows,
    int threads, size_t room, uint32_t* first, int64_t* counts, size_t* found) noexcept nogil
cdef privmw_status privmw_matching_rows(const privmw_columns* columns, const uint32_t* attributes,
    const uint32_t* values, size_t count, size_t room, uint32_t* rows, size_t* found) noexcept nogil
cdef privmw_status privmw_marginals_new(const privmw_columns* columns, const int32_t* attributes,
    const int64_t* starts, size_t count, int threads, privmw_marginals** out) noexcept nogil
cdef void privmw_marginals_free(privmw_marginals* marginals) noexcept nogil
cdef privmw_status privmw_marginals_cells(const privmw_marginals* marginals, size_t* cells) noexcept nogil
cdef privmw_status privmw_marginals_plan(const privmw_marginals* marginals, uint64_t* ways) noexcept nogil
cdef privmw_status privmw_marginals_sum(const privmw_marginals* marginals, const int64_t* masses,
    size_t rows, int threads, int64_t* sums, size_t cells) noexcept nogil
cdef privmw_status privmw_marginals_add_changes(const privmw_marginals* marginals, const uint32_t* rows,
    const int64_t* changes, size_t count, int threads, int64_t* sums, size_t cells) noexcept nogil
cdef privmw_status privmw_marginals_potentials(const privmw_marginals* marginals, const int64_t* values,
    size_t cells, int exponent, int threads, double* potentials, size_t rows) noexcept nogil
cdef privmw_status privmw_rescale(double* weights, size_t rows, int threads, int64_t* total) noexcept nogil
cdef privmw_status privmw_to_masses(const double* weights, size_t rows, int threads, int64_t* masses,
    int64_t* total) noexcept nogil
cdef privmw_status privmw_multiply(double* weights, size_t rows, const uint32_t* which, size_t count,
    double factor, int threads, int64_t* changes, int64_t* total) noexcept nogil
cdef privmw_status privmw_tilt(const double* base, const double* potentials, size_t rows, int threads,
    double* weights, double* log_total) noexcept nogil
cdef privmw_status privmw_chacha20_new(privmw_chacha20** out) noexcept nogil
cdef privmw_status privmw_chacha20_seeded(const uint8_t* key, privmw_chacha20** out) noexcept nogil
cdef void privmw_chacha20_free(privmw_chacha20* generator) noexcept nogil
cdef privmw_status privmw_chacha20_words(privmw_chacha20* generator, privmw_words* out) noexcept nogil
cdef privmw_status privmw_chacha20_fill(privmw_chacha20* generator, uint8_t* out,
    size_t count) noexcept nogil
cdef privmw_status privmw_discrete_gaussian(privmw_words words, uint64_t sigma2_numerator,
    uint64_t sigma2_denominator, int64_t* out, size_t count) noexcept nogil
cdef privmw_status privmw_discrete_laplace(privmw_words words, uint64_t scale_numerator,
    uint64_t scale_denominator, int64_t* out, size_t count) noexcept nogil
cdef privmw_status privmw_select_permute_and_flip(privmw_words words, const int64_t* scores, size_t count,
    uint64_t gamma_numerator, uint64_t gamma_denominator, size_t k, int64_t* chosen) noexcept nogil
cdef privmw_status privmw_select_exponential(privmw_words words, const int64_t* scores, size_t count,
    uint64_t gamma_numerator, uint64_t gamma_denominator, size_t k, int64_t* chosen) noexcept nogil
