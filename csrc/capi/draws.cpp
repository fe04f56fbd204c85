#include <algorithm>

#include "capi/guard.hpp"
#include "draw/keystream.hpp"
#include "draw/noise.hpp"
#include "draw/selection.hpp"

struct privmw_chacha20 {
    privmw::draw::Keystream stream;
};

using namespace privmw;
using namespace privmw::capi;
using namespace privmw::draw;

namespace {

// A caller's source of words. A failing source often repeats one word: noise from such words hides nothing.
// Random words repeat one four times in a row with probability 2^-256.
struct Watched {
    privmw_words words;
    std::uint64_t last = 0;
    int repeats = 0;

    static std::uint64_t next(void* state) {
        Watched& self = *static_cast<Watched*>(state);
        const std::uint64_t word = self.words.next(self.words.state);
        self.repeats = word == self.last ? self.repeats + 1 : 0;
        self.last = word;
        if (self.repeats == 4) throw StuckGenerator();
        return word;
    }
};

// watched: outlives what is returned.
WordSource checked_words(Watched& watched) {
    const privmw_words& words = watched.words;
    require(words.next != nullptr, PRIVMW_NULL);
    if (words.next != &keystream_next64) return {&watched, &Watched::next};
    // Missing entropy in a child process must be detected before a draw, which it would abort.
    require_pointers({words.state});
    require(keystream_ready(*static_cast<Keystream*>(words.state)), PRIVMW_ENTROPY);
    return {words.state, words.next};
}

template <class Law>
privmw_status draw_noise(const privmw_words& words, std::uint64_t numerator, std::uint64_t denominator,
                         bool (*fits)(const Natural&, const Natural&), std::int64_t* out,
                         std::size_t count) noexcept {
    return guarded([&] {
        require_pointers({out});
        Watched watched{words};
        const WordSource source = checked_words(watched);
        require(numerator >= 1 && denominator >= 1 && fits(numerator, denominator), PRIVMW_VALUE);
        require(count <= PTRDIFF_MAX / sizeof(std::int64_t), PRIVMW_SIZE);
        Law(numerator, denominator).draw(source, {out, count});
    });
}

template <class Select>
privmw_status draw_choice(const privmw_words& words, const std::int64_t* scores, std::size_t count,
                          std::uint64_t numerator, std::uint64_t denominator, std::size_t k,
                          std::int64_t* chosen, const Select& select) noexcept {
    return guarded([&] {
        require_pointers({scores, chosen});
        Watched watched{words};
        const WordSource source = checked_words(watched);
        require(count >= 1 && count <= INT32_MAX && k >= 1 && k <= count, PRIVMW_SIZE);
        require(numerator >= 1 && denominator >= 1, PRIVMW_VALUE);
        const Decay decay(numerator, denominator);
        const auto found = select(source, StoredScores{scores, count}, decay, static_cast<std::int64_t>(k));
        std::copy(found.begin(), found.end(), chosen);
    });
}

privmw_status make_generator(const std::uint8_t* key, privmw_chacha20** out) noexcept {
    return guarded([&] {
        auto made = std::make_unique<privmw_chacha20>();
        if (key == nullptr)
            require(keystream_from_os(made->stream), PRIVMW_ENTROPY);
        else
            keystream_from_key(made->stream, key);
        *out = made.release();
    });
}

}  // namespace

uint32_t privmw_abi(void) noexcept {
    return PRIVMW_ABI_MAJOR * 65536 + PRIVMW_ABI_MINOR;
}

const char* privmw_version(void) noexcept {
    return PRIVMW_VERSION;
}

const char* privmw_message(privmw_status status) noexcept {
    switch (status) {
        case PRIVMW_OK:
            return "done";
        case PRIVMW_NULL:
            return "a pointer must not be null";
        case PRIVMW_SIZE:
            return "a size or number of threads must be in range and fit the others";
        case PRIVMW_VALUE:
            return "a value must be within its domain";
        case PRIVMW_RESCALE:
            return "the weights must be rescaled first";
        case PRIVMW_RESOURCES:
            return "memory and threads must be available";
        case PRIVMW_ENTROPY:
            return "entropy must come from the operating system";
        case PRIVMW_STUCK:
            return "the source must give random words";
        case PRIVMW_INTERNAL:
            return "a defect of privmw: please report it";
        default:
            return "unknown status";
    }
}

privmw_status privmw_chacha20_new(privmw_chacha20** out) noexcept {
    return out == nullptr ? PRIVMW_NULL : make_generator(nullptr, out);
}

privmw_status privmw_chacha20_seeded(const uint8_t* key, privmw_chacha20** out) noexcept {
    return key == nullptr || out == nullptr ? PRIVMW_NULL : make_generator(key, out);
}

void privmw_chacha20_free(privmw_chacha20* generator) noexcept {
    if (generator != nullptr) keystream_wipe(generator->stream);
    delete generator;
}

privmw_status privmw_chacha20_words(privmw_chacha20* generator, privmw_words* out) noexcept {
    return guarded([&] {
        require_pointers({generator, out});
        *out = {&generator->stream, &keystream_next64};
    });
}

privmw_status privmw_chacha20_fill(privmw_chacha20* generator, uint8_t* out, size_t count) noexcept {
    return guarded([&] {
        require_pointers({generator, out});
        require(count <= PTRDIFF_MAX, PRIVMW_SIZE);
        require(keystream_ready(generator->stream), PRIVMW_ENTROPY);
        keystream_fill(generator->stream, out, count);
    });
}

privmw_status privmw_discrete_gaussian(privmw_words words, uint64_t sigma2_numerator,
                                       uint64_t sigma2_denominator, int64_t* out, size_t count) noexcept {
    return draw_noise<DiscreteGaussian>(words, sigma2_numerator, sigma2_denominator, gaussian_sigma2_fits,
                                        out, count);
}

privmw_status privmw_discrete_laplace(privmw_words words, uint64_t scale_numerator,
                                      uint64_t scale_denominator, int64_t* out, size_t count) noexcept {
    return draw_noise<DiscreteLaplace>(words, scale_numerator, scale_denominator, laplace_scale_fits, out,
                                       count);
}

privmw_status privmw_select_permute_and_flip(privmw_words words, const int64_t* scores, size_t count,
                                             uint64_t gamma_numerator, uint64_t gamma_denominator, size_t k,
                                             int64_t* chosen) noexcept {
    return draw_choice(words, scores, count, gamma_numerator, gamma_denominator, k, chosen,
                       [](const auto& source, const auto& of, const auto& decay, std::int64_t number) {
                           return select_permute_and_flip(source, of, {}, decay, number);
                       });
}

privmw_status privmw_select_exponential(privmw_words words, const int64_t* scores, size_t count,
                                        uint64_t gamma_numerator, uint64_t gamma_denominator, size_t k,
                                        int64_t* chosen) noexcept {
    return draw_choice(words, scores, count, gamma_numerator, gamma_denominator, k, chosen,
                       [](const auto& source, const auto& of, const auto& decay, std::int64_t number) {
                           return select_exponential(source, of, {}, decay, number);
                       });
}
