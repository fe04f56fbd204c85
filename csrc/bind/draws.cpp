// Exact draws for Python: integers, dtypes, the generator's lock, the GIL. No arithmetic; the laws are in
// csrc/draw.
#include <optional>
#include <string>
#include <vector>

#include "bind/arrays.hpp"
#include "draw/decay.hpp"
#include "draw/errors.hpp"
#include "draw/noise.hpp"
#include "draw/selection.hpp"

namespace privmw {

using namespace draw;

namespace {

constexpr std::size_t longest_integer = 4096;  // bits

std::string describe(py::handle value) {
    return py::str(value).cast<std::string>();
}

// Of the wrong kind, so perhaps private records: only scalars are quoted.
[[noreturn]] void refuse_kind(const char* name, py::handle value) {
    const auto shown = py::module_::import("privmw.secrecy").attr("shown")(value).cast<std::string>();
    throw py::type_error(std::string(name) + " (" + shown + ") must be an integer");
}

[[noreturn]] void refuse(const char* name, const std::string& value, const char* requirement) {
    throw py::value_error(std::string(name) + " (" + value + ") must " + requirement);
}

// A Python integer of up to 4096 bits; at least one if `positive`.
Natural natural(const char* name, py::handle value, bool positive) {
    if (PyBool_Check(value.ptr()) || !PyIndex_Check(value.ptr())) refuse_kind(name, value);
    const auto integer = py::reinterpret_steal<py::int_>(PyNumber_Index(value.ptr()));
    if (!integer) throw py::error_already_set();
    if (integer < py::int_(positive ? 1 : 0))
        refuse(name, describe(value), positive ? "be positive" : "be non-negative");
    const auto bits = integer.attr("bit_length")().cast<std::size_t>();
    if (bits > longest_integer) refuse(name, std::to_string(bits) + " bits", "have at most 4096 bits");
    const auto bytes = integer.attr("to_bytes")((bits + 7) / 8, "little").cast<std::string>();
    Wiped<std::uint64_t> words((bits + 63) / 64);
    for (std::size_t i = 0; i < bytes.size(); ++i)
        words[i / 8] |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * (i % 8));
    return Natural::from_words(std::move(words));
}

std::string ratio(py::handle numerator, py::handle denominator) {
    return describe(numerator) + "/" + describe(denominator);
}

std::int64_t integer(const char* name, py::handle value, std::int64_t least, std::int64_t most,
                     const char* requirement) {
    if (PyBool_Check(value.ptr()) || !PyIndex_Check(value.ptr())) refuse_kind(name, value);
    const auto given = py::reinterpret_steal<py::int_>(PyNumber_Index(value.ptr()));
    if (!given) throw py::error_already_set();
    if (given < py::int_(least) || given > py::int_(most)) refuse(name, describe(value), requirement);
    return given.cast<std::int64_t>();
}

// numpy's generator protocol: the layout of its bitgen_t, which the capsule points to.
struct BitGenerator {
    void* state;
    std::uint64_t (*next_uint64)(void*);
    std::uint32_t (*next_uint32)(void*);
    double (*next_double)(void*);
    std::uint64_t (*next_raw)(void*);
};

// The words of a numpy BitGenerator, its lock held, the GIL released: `draw(words)` touches no Python object.
template <class Draw>
void with_words(py::handle bit_generator, const Draw& draw) {
    if (!py::hasattr(bit_generator, "capsule") || !py::hasattr(bit_generator, "lock"))
        throw py::type_error("bit_generator (" + describe(py::type::handle_of(bit_generator)) +
                             ") must be a numpy BitGenerator");
    const py::capsule capsule = bit_generator.attr("capsule");
    auto* const generator = static_cast<BitGenerator*>(PyCapsule_GetPointer(capsule.ptr(), "BitGenerator"));
    if (generator == nullptr) throw py::error_already_set();
    // Missing entropy in a child process must be detected before a draw.
    if (py::hasattr(bit_generator, "ready")) bit_generator.attr("ready")();
    const py::object lock = bit_generator.attr("lock");
    struct Held {
        const py::object& lock;
        explicit Held(const py::object& of) : lock(of) { lock.attr("acquire")(); }
        ~Held() { lock.attr("release")(); }
    } held(lock);
    const py::gil_scoped_release unlocked;
    draw(WordSource{generator->state, generator->next_uint64});
}

using Integers = py::array_t<std::int64_t>;
using Bits = py::array_t<bool>;

std::int64_t size_of(py::handle size) {
    return integer("size", size, 0, PTRDIFF_MAX, "be non-negative");
}

template <class Law>
Bits draw_bits(py::handle bit_generator, std::int64_t size, const Law& law) {
    Bits result(size);
    bool* const out = result.mutable_data();
    with_words(bit_generator, [&](const WordSource& words) {
        for (std::int64_t i = 0; i < size; ++i) out[i] = law(words);
    });
    return result;
}

Bits coin_exp(py::handle bit_generator, py::handle numerator, py::handle denominator, py::handle size) {
    const Natural above = natural("numerator", numerator, false),
                  below = natural("denominator", denominator, true);
    const std::int64_t count = size_of(size);
    if (above.is_zero()) return draw_bits(bit_generator, count, [](const WordSource&) { return true; });
    const Decay decay(above, below);
    return draw_bits(bit_generator, count, [&](const WordSource& words) { return decay.coin(words, 1); });
}

Bits bernoulli(py::handle bit_generator, py::handle numerator, py::handle denominator, py::handle size) {
    const Natural above = natural("numerator", numerator, false),
                  below = natural("denominator", denominator, true);
    if (above > below) refuse("probability", ratio(numerator, denominator), "be at most 1");
    const Bernoulli law(above, below);
    return draw_bits(bit_generator, size_of(size), law);
}

Integers uniform(py::handle bit_generator, py::handle bound, py::handle size) {
    const auto below =
        static_cast<std::uint64_t>(integer("bound", bound, 1, INT64_MAX, "be between 1 and 2^63 - 1"));
    Integers result(size_of(size));
    std::int64_t* const out = result.mutable_data();
    with_words(bit_generator, [&, count = result.size()](const WordSource& words) {
        for (py::ssize_t i = 0; i < count; ++i)
            out[i] = static_cast<std::int64_t>(uniform_below(words, below));
    });
    return result;
}

template <class Law>
Integers draw_noise(py::handle bit_generator, std::int64_t size, const Law& law) {
    Integers result(size);
    const std::span<std::int64_t> out(result.mutable_data(), static_cast<std::size_t>(size));
    with_words(bit_generator, [&](const WordSource& words) { law.draw(words, out); });
    return result;
}

Integers discrete_laplace(py::handle bit_generator, py::handle numerator, py::handle denominator,
                          py::handle size) {
    const Natural above = natural("scale_numerator", numerator, true);
    const Natural below = natural("scale_denominator", denominator, true);
    if (!laplace_scale_fits(above, below)) refuse("scale", ratio(numerator, denominator), "be at most 2^40");
    return draw_noise(bit_generator, size_of(size), DiscreteLaplace(above, below));
}

Integers discrete_gaussian(py::handle bit_generator, py::handle numerator, py::handle denominator,
                           py::handle size) {
    const Natural above = natural("sigma2_numerator", numerator, true);
    const Natural below = natural("sigma2_denominator", denominator, true);
    if (!gaussian_sigma2_fits(above, below))
        refuse("sigma2", ratio(numerator, denominator), "be at most 2^80");
    return draw_noise(bit_generator, size_of(size), DiscreteGaussian(above, below));
}

// Two arrays that Python owns, and the distances of their entries.
struct BoundErrors {
    py::array counts, answers;
    Errors errors;
};

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

StoredScores stored_scores(py::handle scores) {
    if (!py::isinstance<py::array_t<std::int64_t>>(scores))
        throw py::type_error("scores (" + describe(py::type::handle_of(scores)) +
                             ") must be a numpy array of int64");
    const auto array = py::reinterpret_borrow<py::array>(scores);
    if (array.ndim() != 1 || (array.flags() & py::array::c_style) == 0)
        refuse("scores", std::to_string(array.ndim()) + " dimensions", "be one-dimensional and contiguous");
    return {static_cast<const std::int64_t*>(array.data()), static_cast<std::size_t>(array.size())};
}

// `draw(words, decay, k)` after every check; most: of k, with replacement. None depends on the value of a
// score: they are private.
template <class Draw>
Integers selection(py::handle bit_generator, std::size_t size, std::span<const std::int64_t> excluded,
                   py::handle gamma_numerator, py::handle gamma_denominator, py::handle k, const Draw& draw,
                   std::int64_t most = 0) {
    if (size < 1 || size > INT32_MAX)
        refuse("scores", std::to_string(size) + " candidates", "have between 1 and 2^31 - 1 candidates");
    std::int64_t last = -1;
    for (const std::int64_t i : excluded) {
        if (i <= last || i >= static_cast<std::int64_t>(size))
            refuse("excluded", std::to_string(i), "ascend, within the candidates");
        last = i;
    }
    const Decay decay(natural("gamma_numerator", gamma_numerator, true),
                      natural("gamma_denominator", gamma_denominator, true));
    const std::int64_t count = most > 0
                                   ? integer("k", k, 1, most, "be between 1 and 2^31")
                                   : integer("k", k, 1, static_cast<std::int64_t>(size - excluded.size()),
                                             "be between 1 and the number of candidates");
    std::vector<std::int64_t> chosen;
    with_words(bit_generator, [&](const WordSource& words) { chosen = draw(words, decay, count); });
    return Integers(static_cast<py::ssize_t>(chosen.size()), chosen.data());
}

// Scores are an array, or Errors: then none is ever stored.
template <class Select>
auto selection_by(const Select& select) {
    return [select](py::handle bit_generator, py::handle scores, py::handle gamma_numerator,
                    py::handle gamma_denominator, py::handle k, const std::optional<py::array>& excluded) {
        const auto without =
            excluded ? values_of<std::int64_t>(*excluded, "excluded") : std::span<const std::int64_t>();
        const auto drawn = [&](const auto& of) {
            return selection(bit_generator, of.size(), without, gamma_numerator, gamma_denominator, k,
                             [&](const WordSource& words, const Decay& decay, std::int64_t count) {
                                 return select(words, of, without, decay, count);
                             });
        };
        if (py::isinstance<BoundErrors>(scores)) return drawn(scores.cast<const BoundErrors&>().errors);
        return drawn(stored_scores(scores));
    };
}

Integers noisy_max(py::handle bit_generator, py::handle scores, py::handle gamma_numerator,
                   py::handle gamma_denominator, py::handle k) {
    const StoredScores of = stored_scores(scores);
    return selection(bit_generator, of.size(), {}, gamma_numerator, gamma_denominator, k,
                     [&](const WordSource& words, const Decay& decay, std::int64_t count) {
                         return report_noisy_max(words, of, decay, count);
                     });
}

constexpr std::int64_t most_draws = std::int64_t{1} << 31;

Integers drawn(py::handle bit_generator, py::handle scores, py::handle gamma_numerator,
               py::handle gamma_denominator, py::handle k) {
    const StoredScores of = stored_scores(scores);
    return selection(
        bit_generator, of.size(), {}, gamma_numerator, gamma_denominator, k,
        [&](const WordSource& words, const Decay& decay, std::int64_t count) {
            return draw_exponential(words, of, decay, count);
        },
        most_draws);
}

}  // namespace

void bind_draws(py::module_& m) {
    using py::arg;
    py::class_<BoundErrors>(m, "Errors")
        .def(py::init(&make_errors), arg("counts"), arg("answers"), arg("whole"), arg("bits"))
        .def("__len__", [](const BoundErrors& bound) { return bound.errors.size(); })
        .def("scores", &scores_of)
        .def("largest", &largest_of_each, arg("starts"));
    m.def("coin_exp", &coin_exp, arg("bit_generator"), arg("numerator"), arg("denominator"), arg("size"));
    m.def("bernoulli", &bernoulli, arg("bit_generator"), arg("numerator"), arg("denominator"), arg("size"));
    m.def("uniform_below", &uniform, arg("bit_generator"), arg("bound"), arg("size"));
    m.def("discrete_laplace", &discrete_laplace, arg("bit_generator"), arg("scale_numerator"),
          arg("scale_denominator"), arg("size"));
    m.def("discrete_gaussian", &discrete_gaussian, arg("bit_generator"), arg("sigma2_numerator"),
          arg("sigma2_denominator"), arg("size"));
    const auto permute_and_flip = [](auto&&... given) { return select_permute_and_flip(given...); };
    m.def("select_permute_and_flip", selection_by(permute_and_flip), arg("bit_generator"), arg("scores"),
          arg("gamma_numerator"), arg("gamma_denominator"), arg("k"), arg("excluded") = py::none());
    const auto exponential = [](auto&&... given) { return select_exponential(given...); };
    m.def("select_exponential", selection_by(exponential), arg("bit_generator"), arg("scores"),
          arg("gamma_numerator"), arg("gamma_denominator"), arg("k"), arg("excluded") = py::none());
    m.def("draw_exponential", &drawn, arg("bit_generator"), arg("scores"), arg("gamma_numerator"),
          arg("gamma_denominator"), arg("k"));
    m.def("report_noisy_max", &noisy_max, arg("bit_generator"), arg("scores"), arg("gamma_numerator"),
          arg("gamma_denominator"), arg("k"));
}

}  // namespace privmw
