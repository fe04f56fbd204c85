"""Typed wrongly in Python: every message names the argument, shows the value, and says the rule.

`python tests/calls/test_wrong_calls.py` prints them all, to be read.
"""

import os
import reprlib
import tempfile
from functools import cache

import numpy as np
import pytest

import privmw as pmw

for library in ("pyarrow", "narwhals", "pandas", "matplotlib"):
    pytest.importorskip(library)

DOMAIN = {"age": {"edges": [0, 18, 65, 100]}, "sex": ["F", "M"], "rooms": 4}

# call | error | argument | value | rule
CALLS = """
pmw.Domain(["age", "sex"]) | TypeError | attributes | list | must be a mapping
pmw.Domain({"age": "ten"}) | TypeError | 'age': size | (str) | must be an integer, a list of labels
pmw.Domain({"age": 0}) | ValueError | 'age': size | size | must be from 1 to 2^32 - 1
pmw.Domain({"age": {"edges": [0, 10, 5]}}) | ValueError | 'age': edges | (3) | must increase
pmw.Domain({"age": {"bins": [0, 10]}}) | ValueError | 'age': keys | keys | must be labels, edges
pmw.Domain({"sex": ["F", "F"]}) | ValueError | 'sex': label | labels[0] | must be given only once
pmw.Domain({}) | ValueError | attributes | none | must be at least one
pmw.Domain.from_public(frame, bins=0) | ValueError | bins | (0) | must be from 1 to
pmw.Domain.from_public(frame, columns="age") | TypeError | columns | 'age' | must be a list of names
domain["sx"] | ValueError | attribute | 'sx' | is not in the domain; did you mean 'sex'?
domain["sex"].code("X") | ValueError | attribute 'sex': value | 'X' | must be one of its 2 labels: 'F', 'M'
domain["age"].code(130) | ValueError | attribute 'age': value | 130 | must be from 0 to 100
domain["age"].code("old") | TypeError | attribute 'age': value | 'old' | must be from 0 to 100
domain.project("age") | TypeError | names | 'age' | must be a list of attribute names
pmw.Table.from_frame(frame, domain, private="yes") | TypeError | private | str | must be True or False
pmw.Table.from_frame(frame, {"age": 3}, private=True) | TypeError | domain | dict | must be a Domain
pmw.Table.from_frame([[1, 2]], domain, private=True) | TypeError | frame | list | must be a pandas, polars
pmw.Table.from_frame(frame.assign(sex="X"), domain, private=False) | ValueError | 'sex' | 'X' | must be one of
pmw.Table.from_frame(frame, domain, private=True, unit="home") | TypeError | at_most | None | given together
pmw.Table.from_codes([[0, 0]], domain, private=False) | ValueError | codes | 2 columns | must have 3
pmw.Table.from_codes([[0, 0, 9]], domain, private=False) | ValueError | 'rooms' | 9 | must be from 0 to 3
public.to_frame("excel") | ValueError | kind | 'excel' | must be 'pyarrow', 'pandas' or 'polars'
public.to_frame(bins="mean") | ValueError | bins | 'mean' | must be one of 'label', 'midpoint', 'spread'
public.write("x.doc") | ValueError | path | x.doc | must end in .parquet, .csv
pmw.Support.from_table(private) | ValueError | public | a private table | must be public
pmw.Support.from_table(frame) | TypeError | public | DataFrame | must be a Table: Table.from_frame
pmw.Support.from_tables([public, public], weights=[1]) | ValueError | weights | (1) | as many as tables (2)
pmw.Workload.all(domain, k=0) | ValueError | k | (0) | must be from 1 to 6
pmw.Workload.all(domain, k=4) | ValueError | k | (4) | must be at most the number of attributes, 3
pmw.Workload.all(domain, k="3") | TypeError | k | '3' | must be an integer
pmw.Workload(domain, ["age"]) | TypeError | marginals[0] | str | must be a tuple of names, such as ('age',)
pmw.Workload(domain, [("age", "agee")]) | ValueError | marginals | marginals[0][1] | is not in the domain; did
pmw.Workload(domain, [("age", "age")]) | ValueError | marginals[0] | ('age', 'age') | must not name
pmw.Workload.all({"age": 3}, k=2) | TypeError | domain | dict | must be a Domain
pmw.Workload.sample(domain, k=2, size=9, seed=0) | ValueError | size | (9) | must be from 0 to 3
pmw.release_auto(private, support, workload) | TypeError | epsilon | None | exactly one of epsilon and rho
pmw.release_auto(private, support, workload, epsilon=1, rho=1) | TypeError | rho | rho 1 | exactly one of
pmw.release_auto(private, support, workload, epsilon=0) | ValueError | epsilon | (0) | must be positive
pmw.release_auto(private, support, workload, epsilon="1") | TypeError | epsilon | '1' | must be a number
pmw.release_auto(private, support, workload, epsilon=1, delta=2) | ValueError | delta | (2) | below 1
pmw.release_auto(private, support, workload, eps=1) | TypeError | option | 'eps' | did you mean epsilon?
pmw.release_auto(public, support, workload, epsilon=1) | ValueError | private | public | a private table
pmw.release_auto(frame, support, workload, epsilon=1) | TypeError | private | DataFrame | must be a Table
pmw.release_auto(private, public, workload, epsilon=1) | TypeError | support | Table | must be a Support
pmw.release_auto(private, support, other, epsilon=1) | ValueError | workload | 6 cells | on the domain
pmw.release_auto(private, support, "all", epsilon=1) | TypeError | workload | 'all' | must be a Workload
pmw.release_auto(private, support, workload, epsilon=1, threads=0) | ValueError | threads | (0) | from 1 to
pmw.release_auto(private, support, workload, epsilon=1, rng="x") | TypeError | rng | 'x' | an integer seed
pmw.release_auto(private, support, workload, epsilon=1, progress=3) | TypeError | progress | 3 | be callable
pmw.release_auto(private, support, workload, epsilon=1, checkpoint=3) | TypeError | checkpoint | 3 | path of a
pmw.MWPub().release(private, None, workload, epsilon=1) | ValueError | support | None | must be a Support
pmw.MWPub(rounds=0) | ValueError | rounds | (0) | must be positive
pmw.MWPub(rounds=2.5) | TypeError | rounds | 2.5 | must be an integer
pmw.MWPub(select="best") | ValueError | select | 'best' | must be one of 'permute-and-flip', 'exponential'
pmw.MWPub(round=5) | TypeError | option | 'round' | did you mean rounds?
pmw.MWPub.as_published(replays="none") | TypeError | option | 'replays' | did you mean replay?
pmw.MWPub(split=1.5) | ValueError | split | 1.5 | must be above 0 and below 1
pmw.MWPub().calibrate(1.0) | TypeError | delta | None | must be given, or n
pmw.MWPub(per_round=99).calibrate(rho=1)(private, support, workload) | ValueError | per_round | 99 | at most
pmw.PEP(gamma=0.1) | ValueError | gamma | 0.1 | must come with slack='l1'
pmw.PEP(particles=5) | ValueError | particles | (5) | must be from 100 to 10,000,000
release.answers("all") | TypeError | workload | 'all' | must be a Workload
release.answers(other) | ValueError | workload | 6 cells | must be on the domain
release.answer(sx="F") | ValueError | attribute | 'sx' | is not in the domain; did you mean 'sex'?
release.answer(sex="X") | ValueError | attribute 'sex': value | 'X' | must be one of its 2 labels: 'F', 'M'
release.answer(["sex"], ["F"]) | TypeError | values[0] | str | must be a code: labels go by name
release.answer("sex", 0) | TypeError | names | 'sex' | must be a tuple of attribute names
release.marginal(["age", "sex"]) | TypeError | name | list | must be that of an attribute
release.marginal("age", level=95) | ValueError | level | 95 | must be from 0.5 to 0.999
release.plot_marginal("sx") | ValueError | attribute | 'sx' | is not in the domain; did you mean 'sex'?
release.sample(0) | ValueError | n | (0) | must be from 1 to
release.sample(1000.5) | TypeError | n | 1000.5 | must be an integer
release.sample(10, method="best") | ValueError | method | 'best' | must be 'randomised' or 'proportional'
release.sample(10, seed="a") | TypeError | seed | 'a' | must be None or a non-negative integer
release.ledger.epsilon(2) | ValueError | delta | (2) | must be at least 0 and below 1
pmw.Release.load(3) | TypeError | path | 3 | must be the path of a file
pmw.evaluate(private, release) | TypeError | private | Release | must be a Table
pmw.Budget.zcdp(-1) | ValueError | rho | -1 | must be positive and finite
pmw.accounting.rho_from_epsilon(1.0, 0) | ValueError | delta | (0) | must be above 0 and below 1
pmw.measure_marginals(private, [("age",)], rho=0) | ValueError | rho | (0) | must be positive and finite
pmw.strategies.residual(loss="max") | ValueError | loss | 'max' | must be one of 'largest', 'marginals'
pmw.Synthesizer(eps=1) | TypeError | option | 'eps' | did you mean epsilon?
pmw.Synthesizer().fit(frame) | ValueError | domain | None | must be given where there is no public frame
pmw.kernels.set_threads(0) | ValueError | n | (0) | must be from 1 to
"""
TABLE = [tuple(part.strip() for part in line.split(" | ")) for line in CALLS.strip().splitlines()]


def people(sex, seed=0):
    import pandas

    rng = np.random.default_rng(seed)
    rooms = rng.integers(0, 4, 500)
    return pandas.DataFrame({"age": rng.integers(0, 100, 500), "sex": rng.choice(sex, 500), "rooms": rooms})


@cache
def names():
    """Everything that a call may name."""
    domain, frame = pmw.Domain(DOMAIN), people(["F", "M"])
    private = pmw.Table.from_frame(frame, domain, private=True)
    public = pmw.Table.from_frame(people(["F", "M"], seed=1), domain, private=False)
    support, workload = pmw.Support.from_table(public), pmw.Workload.all(domain, k=2)
    other = pmw.Workload.all(pmw.Domain({"age": 3, "sex": 2}), k=2)
    release = pmw.PEP(select="all").calibrate(rho=0.1)(private, support, workload, rng=0)
    return {**locals(), "pmw": pmw, "secret": people(["Z9secret", "Z9secret2"])}


def test_there_are_enough_of_them():
    assert len(TABLE) >= 60
    assert {len(row) for row in TABLE} == {5}


@pytest.mark.parametrize("row", TABLE, ids=[row[0] for row in TABLE])
def test_a_wrong_call_is_told_its_argument_value_and_rule(row, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call, error, argument, value, rule = row
    with pytest.raises((TypeError, ValueError)) as raised:
        eval(call, dict(names()))
    message = str(raised.value)
    assert type(raised.value).__name__ == error
    assert [part for part in (argument, value, rule) if part not in message] == []
    assert "\n" not in message
    assert len(message) < 320
    assert list(tmp_path.iterdir()) == []


MISPLACED = """
pmw.Domain(secret)
pmw.Table.from_frame(secret, secret, private=True)
pmw.Table.from_frame(secret, domain, private=secret)
pmw.Table.from_frame(secret, domain, private=True)
pmw.Table.from_frame(secret, domain, private=True, unit=secret)
pmw.Table(secret, domain, private=True)
pmw.Support.from_table(secret)
pmw.Support.from_tables(secret)
pmw.Support.from_tables([secret])
pmw.Support.full(secret)
pmw.Workload.all(secret, k=2)
pmw.Workload(domain, secret)
pmw.release_auto(secret, support, workload, epsilon=1)
pmw.release_auto(private, secret, workload, epsilon=1)
pmw.release_auto(private, support, secret, epsilon=1)
pmw.release_auto(private, support, workload, epsilon=secret)
pmw.release_auto(private, support, workload, epsilon=1, rng=secret)
pmw.release_auto(private, support, workload, epsilon=1, checkpoint=secret)
pmw.release_auto(private, support, workload, epsilon=1, account=secret)
pmw.MWEM().release(private, secret, workload, epsilon=1)
pmw.PEP().release(private, secret, workload, epsilon=1)
pmw.evaluate(secret, private)
pmw.evaluate(release, secret)
pmw.extensions.evaluation.best_mixture_error(secret, private, workload)
pmw.choose_public(secret, [public], workload, epsilon=1)
pmw.choose_public(private, [secret], workload, epsilon=1)
pmw.measure_marginals(secret, [("age",)], rho=1)
pmw.measure_marginals(private, secret, rho=1)
pmw.curator.Curator(secret, workload, pmw.Budget.zcdp(1))
pmw.curator.Curator(private, secret, pmw.Budget.zcdp(1))
pmw.Synthesizer(domain=secret).fit(secret)
pmw.Synthesizer(domain=domain).fit(secret)
pmw.Synthesizer(marginals=secret, domain=domain).fit(secret)
pmw.Synthesizer(algorithm=secret, domain=domain).fit(secret)
pmw.Synthesizer(domain=domain, unit=secret, at_most=2).fit(secret)
release.answers(secret)
release.answer(sex=secret)
release.marginal(secret)
release.sample(secret)
release.sample(10, seed=secret)
release.sample(10, method=secret)
release.report(secret)
pmw.load_release(secret)
pmw.Domain.read(secret)
pmw.read_table(secret, domain, private=True)
"""


@pytest.mark.parametrize("size", ["frame", "short frame"])
@pytest.mark.parametrize("call", MISPLACED.strip().splitlines())
def test_a_private_frame_in_the_wrong_place_is_not_quoted(call, size, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    known = dict(names())
    if size == "short frame":  # reprlib cuts a longer text in the middle
        known["secret"] = known["secret"][["sex"]][:1]
        assert "Z9secret" in reprlib.repr(known["secret"])
    with pytest.raises(Exception) as raised:  # noqa: PT011  whatever it is, it must not tell
        eval(call, known)
    error = raised.value
    while error is not None:
        assert "Z9secret" not in str(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


if __name__ == "__main__":
    os.chdir(tempfile.mkdtemp())
    for call in [row[0] for row in TABLE] + MISPLACED.strip().splitlines():
        try:
            eval(call, dict(names()))
        except Exception as error:
            print(f"{call}\n    {type(error).__name__}: {error}")
