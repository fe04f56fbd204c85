#include "core/weights.hpp"

#include "bind/arrays.hpp"

namespace privmw {

void bind_weights(py::module_& m) {
    m.def(
        "rescale",
        [](py::array weights, int threads) {
            const auto in = writable_values_of<double>(weights, "weights");
            py::gil_scoped_release release;
            return rescale(in.data(), in.size(), threads);
        },
        py::arg("weights"), py::arg("threads"));

    m.def(
        "to_masses",
        [](const py::array& weights, int threads) {
            const auto in = values_of<double>(weights, "weights");
            py::array_t<Mass> masses(static_cast<py::ssize_t>(in.size()));
            auto* out = masses.mutable_data();
            Mass total = 0;
            {
                py::gil_scoped_release release;
                total = to_masses(in.data(), in.size(), threads, out);
            }
            return py::make_tuple(masses, total);
        },
        py::arg("weights"), py::arg("threads"));

    m.def(
        "multiply",
        [](py::array weights, const py::array& rows, double factor, Mass total, int threads) {
            const auto in = writable_values_of<double>(weights, "weights");
            const auto which = values_of<Row>(rows, "rows");
            py::array_t<Mass> changes(static_cast<py::ssize_t>(which.size()));
            auto* out = changes.mutable_data();
            Update update;
            {
                py::gil_scoped_release release;
                update = multiply(in.data(), in.size(), which, factor, total, threads, out);
            }
            return py::make_tuple(changes, update.total, update.rescaled);
        },
        py::arg("weights"), py::arg("rows"), py::arg("factor"), py::arg("total"), py::arg("threads"));
}

}  // namespace privmw
