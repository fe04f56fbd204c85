#include "core/responses.hpp"

#include "bind/arrays.hpp"

namespace privmw {

void bind_responses(py::module_& m) {
    using py::arg;
    m.def(
        "climb",
        [](py::array codes, const std::vector<std::uint32_t>& sizes, const py::array& attributes,
           const py::array& values, const py::array& starts, const py::array& weights, const py::array& terms,
           std::size_t groups, py::array scores, int threads) {
            const auto a = values_of<std::int32_t>(attributes, "attributes");
            const auto v = values_of<std::uint32_t>(values, "values");
            const auto s = values_of<std::int64_t>(starts, "starts");
            const auto w = values_of<std::int64_t>(weights, "weights");
            const auto t = values_of<std::int64_t>(terms, "terms");
            if (!py::isinstance<py::array_t<std::uint32_t, py::array::c_style>>(codes) || codes.ndim() != 2)
                throw py::type_error("codes must be a contiguous two-dimensional array of uint32");
            auto* const records = static_cast<std::uint32_t*>(codes.mutable_data());
            const auto count = static_cast<std::size_t>(codes.shape(0));
            const auto out = writable_values_of<std::int64_t>(scores, "scores");
            py::gil_scoped_release release;
            const Responses responses(sizes,
                                      {{a.begin(), a.end()}, {v.begin(), v.end()}, {s.begin(), s.end()}},
                                      {w.begin(), w.end()});
            responses.climb(t, groups, records, count, threads, out.data());
        },
        arg("codes"), arg("sizes"), arg("attributes"), arg("values"), arg("starts"), arg("weights"),
        arg("terms"), arg("groups"), arg("scores"), arg("threads"));
}

}  // namespace privmw
