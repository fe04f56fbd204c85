"""Our synthesizer in the real smartnoise-synth, made by its own factory."""

import numpy as np
import pytest

import privmw as pmw

snsynth = pytest.importorskip("snsynth", reason="privmw[smartnoise]")
import pandas as pd  # noqa: E402

from privmw.extensions.synthesizer.smartnoise import PrivmwSynthesizer  # noqa: E402

DOMAIN = {"sex": ["F", "M"], "rooms": [1, 2, 3], "age": {"edges": [0, 18, 65, 120]}}


def people(n, seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "sex": rng.choice(["F", "M"], n, p=[0.8, 0.2]),
            "rooms": rng.integers(1, 4, n),
            "age": rng.integers(0, 100, n),
        }
    )


PRIVATE, PUBLIC = people(2000, 1), people(500, 2)


def make(**options):
    given = {"domain": DOMAIN, "marginals": 2, "epsilon": 2.0} | options
    return snsynth.Synthesizer.create("privmw", **given)


def test_it_is_among_the_synthesizers_and_its_own_factory_makes_it():
    assert "privmw" in snsynth.Synthesizer.list_synthesizers()
    assert isinstance(make(), PrivmwSynthesizer)
    assert isinstance(PrivmwSynthesizer.create(epsilon=1, domain=DOMAIN), PrivmwSynthesizer)


@pytest.mark.parametrize("options", [{}, {"public": PUBLIC}, {"public": PUBLIC, "domain": None}])
def test_a_frame_becomes_synthetic_records(options):
    synthesizer = make(**options)
    records = synthesizer.fit_sample(PRIVATE)
    assert isinstance(records, pd.DataFrame)
    assert (len(records), list(records.columns)) == (2000, list(PRIVATE.columns))
    assert abs((records["sex"] == "F").mean() - 0.8) < 0.1
    assert isinstance(synthesizer.release_, pmw.Release)
    assert synthesizer.release_.ledger.epsilon(1 / 2000**2) <= 2.0
    assert len(synthesizer.sample(7)) == 7


def test_arrays_and_lists_come_back_as_such():
    rows = list(PRIVATE.itertuples(index=False, name=None))
    synthesizer = make()
    listed = synthesizer.fit_sample(rows)
    assert isinstance(listed, list)
    assert isinstance(listed[0], tuple)
    assert {row[0] for row in listed} <= {"F", "M"}
    array = make().fit_sample(np.array(rows, object))
    assert isinstance(array, np.ndarray)
    assert array.shape == (2000, 3)


def test_conditional_samples_are_smartnoise_s_own():
    synthesizer = make()
    synthesizer.fit(PRIVATE)
    women = synthesizer.sample_conditional(50, "sex = 'F'")
    assert len(women) == 50
    assert set(women["sex"]) == {"F"}


def test_what_would_learn_from_private_data_is_refused():
    for options, words in (
        ({"transformer": {}}, "transformer must be None"),
        ({"preprocessor_eps": 0.5}, r"preprocessor_eps \(0.5\) must be 0"),
    ):
        with pytest.raises(ValueError, match=f"^{words}"):
            make().fit(PRIVATE, **options)
    with pytest.raises(ValueError, match=r"^domain \(None\) must be given"):
        make(domain=None).fit(PRIVATE)
    with pytest.raises(ValueError, match=r"^domain \(None\) must be given"):
        make(domain=None).fit([("F", 1, 2)])


def test_bad_data_are_refused_without_being_quoted():
    with pytest.raises(TypeError, match=r"^data \(str\) must be"):
        make().fit("people.csv")
    with pytest.raises(ValueError, match="must have the 3 columns"):
        make().fit([("F", 1)])
    with pytest.raises(ValueError, match="rooms") as caught:
        make().fit(PRIVATE.assign(rooms=98765))
    assert "98765" not in str(caught.value)
    with pytest.raises(TypeError, match=r"^option \('epsilom'\) must be"):
        make(epsilom=1)
