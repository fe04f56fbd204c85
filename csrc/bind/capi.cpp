// The functions of privmw.h as capsules, each named by its signature as Cython writes it: what cimport from
// privmw.kernels finds, and what ctypes can call.
#include "bind/pybind.hpp"
#include "capi/privmw.h"

namespace privmw {

namespace py = pybind11;

void bind_capi(py::module_& m) {
    py::dict functions;
    const auto add = [&](const char* name, auto* function, const char* signature) {
        functions[name] = py::capsule(reinterpret_cast<void*>(function), signature);
    };
    add("privmw_abi", &privmw_abi, "uint32_t (void)");
    add("privmw_version", &privmw_version, "char const *(void)");
    add("privmw_message", &privmw_message, "char const *(privmw_status)");
    add("privmw_columns_new", &privmw_columns_new,
        "privmw_status (privmw_column const *, size_t, size_t, int, privmw_columns **)");
    add("privmw_columns_free", &privmw_columns_free, "void (privmw_columns *)");
    add("privmw_distinct_rows", &privmw_distinct_rows,
        "privmw_status (privmw_column const *, size_t, size_t, int, size_t, uint32_t *, int64_t *, size_t "
        "*)");
    add("privmw_matching_rows", &privmw_matching_rows,
        "privmw_status (privmw_columns const *, uint32_t const *, uint32_t const *, size_t, size_t, uint32_t "
        "*, size_t *)");
    add("privmw_marginals_new", &privmw_marginals_new,
        "privmw_status (privmw_columns const *, int32_t const *, int64_t const *, size_t, int, "
        "privmw_marginals **)");
    add("privmw_marginals_free", &privmw_marginals_free, "void (privmw_marginals *)");
    add("privmw_marginals_cells", &privmw_marginals_cells,
        "privmw_status (privmw_marginals const *, size_t *)");
    add("privmw_marginals_plan", &privmw_marginals_plan,
        "privmw_status (privmw_marginals const *, uint64_t *)");
    add("privmw_marginals_sum", &privmw_marginals_sum,
        "privmw_status (privmw_marginals const *, int64_t const *, size_t, int, int64_t *, size_t)");
    add("privmw_marginals_add_changes", &privmw_marginals_add_changes,
        "privmw_status (privmw_marginals const *, uint32_t const *, int64_t const *, size_t, int, int64_t *, "
        "size_t)");
    add("privmw_marginals_potentials", &privmw_marginals_potentials,
        "privmw_status (privmw_marginals const *, int64_t const *, size_t, int, int, double *, size_t)");
    add("privmw_rescale", &privmw_rescale, "privmw_status (double *, size_t, int, int64_t *)");
    add("privmw_to_masses", &privmw_to_masses,
        "privmw_status (double const *, size_t, int, int64_t *, int64_t *)");
    add("privmw_multiply", &privmw_multiply,
        "privmw_status (double *, size_t, uint32_t const *, size_t, double, int, int64_t *, int64_t *)");
    add("privmw_tilt", &privmw_tilt,
        "privmw_status (double const *, double const *, size_t, int, double *, double *)");
    add("privmw_chacha20_new", &privmw_chacha20_new, "privmw_status (privmw_chacha20 **)");
    add("privmw_chacha20_seeded", &privmw_chacha20_seeded,
        "privmw_status (uint8_t const *, privmw_chacha20 **)");
    add("privmw_chacha20_free", &privmw_chacha20_free, "void (privmw_chacha20 *)");
    add("privmw_chacha20_words", &privmw_chacha20_words, "privmw_status (privmw_chacha20 *, privmw_words *)");
    add("privmw_chacha20_fill", &privmw_chacha20_fill,
        "privmw_status (privmw_chacha20 *, uint8_t *, size_t)");
    add("privmw_discrete_gaussian", &privmw_discrete_gaussian,
        "privmw_status (privmw_words, uint64_t, uint64_t, int64_t *, size_t)");
    add("privmw_discrete_laplace", &privmw_discrete_laplace,
        "privmw_status (privmw_words, uint64_t, uint64_t, int64_t *, size_t)");
    add("privmw_select_permute_and_flip", &privmw_select_permute_and_flip,
        "privmw_status (privmw_words, int64_t const *, size_t, uint64_t, uint64_t, size_t, int64_t *)");
    add("privmw_select_exponential", &privmw_select_exponential,
        "privmw_status (privmw_words, int64_t const *, size_t, uint64_t, uint64_t, size_t, int64_t *)");
    m.attr("__pyx_capi__") = functions;
}

}  // namespace privmw
