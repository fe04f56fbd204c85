// Errors for Python: dtypes, lengths, the GIL. No arithmetic, and nothing depends on the value of a count.
#include "bind/errors.hpp"

#include <string>

namespace privmw {
namespace {

BoundErrors make_errors(const py::array& counts, const py::array& answers, double whole, unsigned bits) {
    const auto given = values_of<std::int64_t>(counts, "counts");
    const auto fractions = values_of<double>(answers, "answers");
    if (given.size() != fractions.size())
        throw py::value_error("answers (" + std::to_string(fractions.size()) + ") must be one for each of " +
                              std::to_string(given.size()) + " counts");
    if (bits > 32) throw py::value_error("bits (" + std::to_string(bits) + ") must be at most 32");
    return {counts, answers, {given, fractions, whole, bits}};
}

py::array_t<std::int64_t> scores_of(const BoundErrors& bound) {
    py::array_t<std::int64_t> result(static_cast<py::ssize_t>(bound.errors.size()));
    std::int64_t* const out = result.mutable_data();
    const py::gil_scoped_release unlocked;
    for (std::size_t i = 0; i < bound.errors.size(); ++i) out[i] = bound.errors[i];
    return result;
}

py::array_t<std::int64_t> largest_of_each(const BoundErrors& bound, const py::array& starts) {
    const auto edges = values_of<std::int64_t>(starts, "starts");
    bool ascend = edges.size() >= 2 && edges.front() >= 0 &&
                  edges.back() <= static_cast<std::int64_t>(bound.errors.size());
    for (std::size_t j = 1; j < edges.size(); ++j) ascend = ascend && edges[j - 1] < edges[j];
    if (!ascend) throw py::value_error("starts must ascend from 0 or more to the number of counts or fewer");
    py::array_t<std::int64_t> result(static_cast<py::ssize_t>(edges.size() - 1));
    const std::span<std::int64_t> out(result.mutable_data(), edges.size() - 1);
    const py::gil_scoped_release unlocked;
    largest_errors(bound.errors, edges, out);
    return result;
}

}  // namespace

void bind_errors(py::module_& m) {
    using py::arg;
    py::class_<BoundErrors>(m, "Errors")
        .def(py::init(&make_errors), arg("counts"), arg("answers"), arg("whole"), arg("bits"))
        .def("__len__", [](const BoundErrors& bound) { return bound.errors.size(); })
        .def("scores", &scores_of)
        .def("largest", &largest_of_each, arg("starts"));
}

}  // namespace privmw
