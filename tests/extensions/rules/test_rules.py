"""Rules proposed from public records: what they find, their support, and that records keep them."""

import json

import numpy as np
import pytest

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("narwhals")

import privmw as pmw  # noqa: E402
from privmw.cli import main  # noqa: E402
from privmw.extensions.rules import propose_rules, written  # noqa: E402


def people(n, seed):
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 90, n)
    adult = age >= 20
    wage = np.where(adult, rng.integers(0, 100, n) * 500 * (rng.random(n) < 0.7), 0)
    rest = rng.integers(0, 90, n) * 100
    frame = pandas.DataFrame(
        {
            "age": age,
            "married": np.where(adult & (rng.random(n) < 0.5), "yes", "no"),
            "wage": wage,
            "rest": rest,
            "income": wage + rest,
            "start": age * 365,
            "begin": age * 365,
            "sex": rng.choice(["F", "M"], n),
        }
    )
    frame["hours"] = pandas.array(np.where(adult, rng.integers(1, 60, n), None), "Int64")
    return frame


DOMAIN = pmw.Domain(
    {
        "age": {"edges": [0, 10, 20, 40, 60, 90]},
        "married": ["no", "yes"],
        "wage": {"edges": [0, 1, 10_000, 30_000, 50_000]},
        "rest": {"edges": [0, 4_000, 9_000]},
        "income": {"edges": [0, 4_000, 20_000, 60_000]},
        "start": {"edges": [0, 9_000, 33_000]},
        "begin": {"edges": [0, 9_000, 33_000]},
        "sex": ["F", "M"],
        "hours": {"edges": [1, 30, 60], "missing": "none"},
    }
)
PUBLIC = people(2_000, 1)
PROPOSED = propose_rules(PUBLIC, DOMAIN)
RULES = json.loads(written(PROPOSED))


def test_orders_equal_columns_and_sums_are_proposed():
    named = {kind: [tuple(rule["attributes"]) for rule in RULES[kind]] for kind in ("order", "equal", "sum")}
    assert named["equal"] == [("start", "begin")]
    assert named["sum"] == [("wage", "rest", "income")]
    assert ("wage", "income") in named["order"]
    assert all("$support" in rule for rules in RULES.values() for rule in rules)


def test_values_that_never_occur_together_are_proposed_with_ranges():
    def excludes(**labels):
        codes = [
            attribute.code(labels[attribute.name])
            for attribute in DOMAIN.attributes
            if attribute.name in labels
        ]
        names = [name for name in DOMAIN.names if name in labels]
        places = [DOMAIN.index(name) for name in names]
        return bool(pmw.Constraints(RULES, DOMAIN).excluded(places)[tuple(codes)])

    assert excludes(age=5, married="yes")
    assert excludes(age=15, hours=40)
    assert excludes(age=50, hours=None)
    assert not excludes(age=50, married="no")
    assert not excludes(sex="F", married="yes")


def test_no_public_record_breaks_a_proposed_rule_and_independent_columns_get_none():
    table = pmw.Table.from_frame(PUBLIC, DOMAIN, private=False)
    assert pmw.Constraints(RULES, DOMAIN).mask(table).all()
    rng = np.random.default_rng(2)
    noise = pandas.DataFrame({name: rng.integers(0, 6, 500) for name in "abc"})
    assert propose_rules(noise, pmw.Domain(dict.fromkeys("abc", 6))) == []


def test_accepted_rules_hold_in_every_record_of_a_release():
    synthesizer = pmw.Synthesizer(
        epsilon=0.2, delta=1e-6, domain=DOMAIN, constraints=RULES, marginals=2, rng=1
    )
    records = synthesizer.fit(people(1_000, 3), public=PUBLIC).sample(3_000, seed=1)
    assert (records["wage"] + records["rest"] == records["income"]).all()
    assert (records["start"] == records["begin"]).all()
    assert not (records["married"][records["age"] < 20] == "yes").any()
    assert records["hours"][records["age"] < 20].isna().all()


def test_public_records_that_contradict_accepted_rules_are_refused_before_anything_is_spent():
    rules = {"invalid": [{"sex": ["F"]}, {"sex": ["M"]}]}
    synthesizer = pmw.Synthesizer(domain=DOMAIN, constraints=rules)
    with pytest.raises(ValueError, match="constraints"):
        synthesizer.fit(people(100, 4), public=PUBLIC)
    with pytest.raises(ValueError, match="income"):
        pmw.Synthesizer(domain=DOMAIN, constraints={"order": [{"attributes": ["wage", "incom"]}]}).fit(
            people(100, 4), public=PUBLIC
        )
    with pytest.raises(TypeError, match=r"constraints \(int\) must be Constraints, or the path or content"):
        pmw.Synthesizer(domain=DOMAIN, constraints=5).fit(people(100, 4), public=PUBLIC)
    assert not hasattr(synthesizer, "release_")


def test_the_command_proposes_rules_and_files_keep_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    PUBLIC.to_parquet("public.parquet")
    people(1_500, 5).to_parquet("private.parquet")
    assert main(["domain", "public.parquet", "-o", "domain.json", "--rules", "rules.json"]) == 0
    assert "rules that no public record breaks" in capsys.readouterr().err
    assert main(["domain", "public.parquet", "--rules", "rules.json"]) == 2
    assert "--rules (rules.json) exists" in capsys.readouterr().err
    line = "synthesize private.parquet public.parquet -o out.parquet --epsilon 1 --yes --quiet --seed 1"
    rules = "--marginals 2 --domain domain.json --constraints rules.json"
    assert main([*line.split(), *rules.split()]) == 0
    assert (tmp_path / "out-release" / "constraints.json").exists()
    (tmp_path / "out-release" / "synthetic.parquet").unlink()
    assert main(["finish", "out-release", "--quiet", "--seed", "2"]) == 0
    for name in ("out.parquet", "out-release/synthetic.parquet"):
        records = pandas.read_parquet(name)
        assert (records["wage"] + records["rest"] == records["income"]).all()
        assert (records["start"] == records["begin"]).all()


def test_an_infinite_number_is_not_compared():
    wage = np.random.default_rng(1).normal(100, 10, 1000)
    frame = pandas.DataFrame({"wage": wage, "income": wage + 5})
    frame.loc[5, "wage"] = np.inf
    edges = {"edges": [0, 100, 200], "open": True}
    (rule, *_) = propose_rules(frame, pmw.Domain({"wage": edges, "income": edges}))
    assert (rule.kind, rule.rule) == ("order", {"attributes": ["wage", "income"]})
    assert "999 public records" in rule.support
