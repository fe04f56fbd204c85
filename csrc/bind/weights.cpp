#include "core/weights.hpp"

#include "bind/arrays.hpp"

namespace privmw {

namespace {

py::int_ to_python(Wide total) {
    const py::int_ high(static_cast<std::uint64_t>(total >> 64));
    return py::int_((high << py::int_(64)) | py::int_(static_cast<std::uint64_t>(total)));
}

}  // namespace

void bind_weights(py::module_& m) {
    m.def(
        "heaviest",
        [](const py::array& weights, int threads) {
            const auto in = values_of<double>(weights, "weights");
            py::gil_scoped_release release;
            return heaviest(in.data(), in.size(), threads);
        },
        py::arg("weights"), py::arg("threads"));

    m.def(
        "total_mass",
        [](const py::array& weights, int exponent, int threads) {
            const auto in = values_of<double>(weights, "weights");
            Wide total = 0;
            {
                py::gil_scoped_release release;
                total = total_mass(in.data(), in.size(), exponent, threads);
            }
            return to_python(total);
        },
        py::arg("weights"), py::arg("exponent"), py::arg("threads"));

    m.def(
        "shift",
        [](py::array weights, int exponent, int threads) {
            const auto in = writable_values_of<double>(weights, "weights");
            py::gil_scoped_release release;
            shift(in.data(), in.size(), exponent, threads);
        },
        py::arg("weights"), py::arg("exponent"), py::arg("threads"));

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
        "signed_masses",
        [](const py::array& weights, const py::array& values, int exponent, int threads) {
            const auto in = values_of<double>(weights, "weights");
            const auto times = values_of<double>(values, "values");
            py::array_t<Mass> masses(static_cast<py::ssize_t>(in.size()));
            auto* out = masses.mutable_data();
            {
                py::gil_scoped_release release;
                signed_masses(in.data(), times.data(), in.size(), exponent, threads, out);
            }
            return masses;
        },
        py::arg("weights"), py::arg("values"), py::arg("exponent"), py::arg("threads"));

    m.def(
        "total_magnitude",
        [](const py::array& masses, int threads) {
            const auto in = values_of<Mass>(masses, "masses");
            Wide total = 0;
            {
                py::gil_scoped_release release;
                total = total_magnitude(in.data(), in.size(), threads);
            }
            return to_python(total);
        },
        py::arg("masses"), py::arg("threads"));

    m.def(
        "multiply",
        [](py::array weights, const py::array& rows, double factor, int threads) {
            const auto in = writable_values_of<double>(weights, "weights");
            const auto which = values_of<Row>(rows, "rows");
            py::array_t<Mass> changes(static_cast<py::ssize_t>(which.size()));
            auto* out = changes.mutable_data();
            Gains gains;
            {
                py::gil_scoped_release release;
                gains = multiply(in.data(), which, factor, threads, out);
            }
            return py::make_tuple(changes, gains.before, gains.gained);
        },
        py::arg("weights"), py::arg("rows"), py::arg("factor"), py::arg("threads"));
}

}  // namespace privmw
