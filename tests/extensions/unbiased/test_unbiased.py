"""Unbiased answers: right on average, as far off as they say, in agreement, and the same after a file."""

import functools
import hashlib
import json
import math
import pickle
import zipfile

import numpy as np
import pytest
from scipy import stats

import privmw as pmw
from privmw import Budget, Workload, measure_marginals, strategies
from privmw.curator import Curator
from privmw.extensions.postprocess import nnls, ols
from privmw.extensions.unbiased import UnbiasedAnswers, load_unbiased_answers
from privmw.extensions.unbiased.intervals import CellError, error_of, half_widths
from privmw.extensions.unbiased.one_shot import measure_shot

DOMAIN = pmw.Domain({"age": 4, "sex": ["F", "M"], "one": 1, "edu": {"labels": ["no", "yes", "more"]}})
CODES = np.random.default_rng(3).integers(0, DOMAIN.sizes, (2000, 4)) % [3, 2, 1, 3]
PRIVATE = pmw.Table.from_codes(CODES, DOMAIN, private=True)
WORKLOAD = Workload(DOMAIN, [("age", "sex"), ("sex", "edu"), ("age", "one"), ("edu",)])
INSIDE = Workload(DOMAIN, [("age",), ("sex",), ("edu", "sex"), ("one",)])
RUNS = 400
KINDS = {
    "equal": (strategies.equal(), {"rho": 0.01}),
    "hdmm": (strategies.hdmm(), {"rho": 0.01}),
    "residual": (strategies.residual(), {"rho": 0.01}),
    "equal, Laplace": (strategies.equal(), {"epsilon": 0.5, "delta": 0}),
    "hdmm, Laplace": (strategies.hdmm(), {"epsilon": 0.5, "delta": 0}),
}
every = pytest.mark.parametrize("kind", KINDS)


def answers(kind, seed=1, private=PRIVATE, workload=WORKLOAD):
    strategy, budget = KINDS[kind]
    return measure_marginals(private, list(workload), strategy=strategy, rng=seed, **budget)


@functools.cache
def repeated(kind):
    """Many releases of one plan."""
    strategy, budget = KINDS[kind]
    mechanism = pmw.extensions.unbiased.one_shot.OneShot(strategy=strategy).calibrate(**budget)
    shot = mechanism.plan(WORKLOAD).shot
    plenty = Budget.pure(10**9) if mechanism.budget.notion == "pure" else Budget.zcdp(10**9, event_delta=0.5)
    with Curator(PRIVATE, shot.measured, plenty, rng=7) as curator:
        ledger = answers(kind).ledger
        return [
            UnbiasedAnswers(shot, measure_shot(curator, shot), ledger=ledger, settings={})
            for _ in range(RUNS)
        ]


def truth(workload):
    return PRIVATE.counts(workload) / PRIVATE.n


@every
@pytest.mark.parametrize("workload", [WORKLOAD, INSIDE], ids=["asked", "inside"])
def test_answers_are_unbiased_and_as_far_off_as_they_say(kind, workload):
    found = np.array([release.answers(workload) for release in repeated(kind)])
    errors = repeated(kind)[0].standard_errors(workload)
    sure = errors == 0  # an attribute of one value: its cell is the public total
    np.testing.assert_allclose(found[:, sure], 1.0, rtol=1e-12)
    z = (found - truth(workload))[:, ~sure] / errors[~sure]
    assert np.abs(z.mean(axis=0)).max() < 6 / math.sqrt(RUNS)
    # Mean squares of all cells: correlated, so the level is that of one; wrong by a tenth is seen.
    spread = (z**2).mean()
    assert abs(spread - 1) < 0.07
    assert not abs(spread * 1.1**2 - 1) < 0.07
    per_cell = (z**2).mean(axis=0)
    assert (np.abs(per_cell - 1) < 0.5).all()


@every
def test_answers_agree_with_each_other_and_with_the_public_total(kind):
    release = answers(kind)
    joint = release.answers(Workload(DOMAIN, [("age", "sex")])).reshape(4, 2)
    np.testing.assert_allclose(joint.sum(axis=1), release.answers(Workload(DOMAIN, [("age",)])), atol=1e-12)
    other = release.answers(Workload(DOMAIN, [("sex", "edu")])).reshape(2, 3)
    np.testing.assert_allclose(joint.sum(axis=0), other.sum(axis=1), atol=1e-12)
    assert joint.sum() == pytest.approx(1, abs=1e-12)
    queries = [{}, {"age": 2, "sex": 1}, {"age": [0, 2]}, {"sex": np.int64(0), "edu": (0, 1)}]
    expected = [1.0, joint[2, 1], joint[[0, 2]].sum(), other[0, :2].sum()]
    np.testing.assert_allclose(release.estimates(queries), expected, atol=1e-12)


@every
def test_covariances_are_those_of_the_answers(kind):
    queries = [{"age": 2, "sex": 1}, {"age": [0, 2]}, {"edu": 1}, {"age": [0, 1, 2, 3]}, {}]
    found = np.array([release.estimates(queries) for release in repeated(kind)])
    stated = repeated(kind)[0].covariance(queries)
    assert not stated[3:].any()  # the total is public
    scale = np.sqrt(np.outer(stated.diagonal()[:3], stated.diagonal()[:3]))
    empirical = np.cov(found[:, :3].T)
    np.testing.assert_allclose(empirical / scale, stated[:3, :3] / scale, atol=0.35)
    cells = [{"age": a, "sex": s} for a in range(4) for s in range(2)]
    errors = repeated(kind)[0].standard_errors(Workload(DOMAIN, [("age", "sex")]))
    np.testing.assert_allclose(np.sqrt(repeated(kind)[0].covariance(cells).diagonal()), errors)


@every
def test_intervals_cover_as_often_as_they_say(kind):
    errors = np.array([np.abs(release.answers() - truth(WORKLOAD)) for release in repeated(kind)])
    low, high = repeated(kind)[0].intervals(0.95)
    assert 0.94 <= (errors <= (high - low) / 2 * (1 + 1e-9)).mean() <= 0.96
    low, high = repeated(kind)[0].intervals(0.95, simultaneous=True)
    together = int((errors <= (high - low) / 2 * (1 + 1e-9)).all(axis=1).sum())
    assert stats.binomtest(together, RUNS, 0.95, alternative="less").pvalue > 1e-3


def test_levels_widen_intervals_and_nonsense_is_refused():
    release = answers("hdmm, Laplace")
    widths = [np.ptp(release.intervals(level), axis=0)[0] for level in (0.5, 0.9, 0.99, 0.999999)]
    assert sorted(widths) == widths
    for level in (0, 1, -1, 2, math.nan):
        with pytest.raises(ValueError, match="level"):
            release.intervals(level)
    with pytest.raises(TypeError, match="level"):
        release.intervals("95")


@pytest.mark.parametrize("outside", [0.3, 0.05, 1e-3, 1e-6, 1e-9])
def test_quantiles_of_one_draw_are_those_of_its_law_and_of_many_gaussian(outside):
    shot = strategies.equal().calibrate(Workload.all(pmw.Domain({"a": 10**6}), k=1), Budget.pure(0.001))
    (width,) = half_widths(shot, [("a",)], outside)  # the total corrects the one draw by a millionth
    scale = math.sqrt(shot.variance(["a"]) / 2)
    assert width == pytest.approx(scale * math.log(1 / outside), rel=2e-4)
    many = CellError(np.array([1.0]), np.array([50.0]), np.array([1e6]))
    from privmw.extensions.unbiased.intervals import _laplace_half_width

    gaussian = -stats.norm.ppf(outside / 2) * math.sqrt(many.variance)
    assert _laplace_half_width(many, outside) == pytest.approx(gaussian, rel=1e-4)


@pytest.mark.parametrize("name", ["equal, Laplace", "hdmm, Laplace"])
def test_the_law_of_an_error_has_the_variance_that_the_plan_states(name):
    shot = answers(name).shot
    for names in (("age", "sex"), ("edu", "sex"), ("age",), ("edu",)):
        assert error_of(shot, names).variance == pytest.approx(shot.variance(names), rel=1e-9)


def test_small_noise_gets_half_a_count_more():
    sharp = measure_marginals(PRIVATE, [("age", "sex")], rho=2.0, strategy=strategies.equal(), rng=1)
    assert sharp.shot.looks[0].scale < 1
    low, high = sharp.intervals(0.95)
    sigma = math.sqrt(sharp.shot.variance(["age", "sex"]))
    np.testing.assert_allclose((high - low) / 2 * sharp.n, stats.norm.ppf(0.975) * sigma + 0.5)
    assert ((low <= truth(sharp.workload)) & (truth(sharp.workload) <= high)).all()


@every
def test_a_file_gives_equal_answers_back(kind, tmp_path):
    release = answers(kind)
    release.save(tmp_path / "answers.npz")
    again = load_unbiased_answers(tmp_path / "answers.npz")
    assert again == release
    assert again.answers().tolist() == release.answers().tolist()
    np.testing.assert_allclose(again.standard_errors(), release.standard_errors(), rtol=1e-15)
    assert pickle.loads(pickle.dumps(release)) == release
    assert answers(kind, seed=2) != release
    with pytest.raises(FileExistsError):
        release.save(tmp_path / "answers.npz")


def tampered(path, change):
    """The file with its members changed, and digests that match."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members.pop("manifest.json"))
    change(members)
    manifest["sha256"] = {name: hashlib.sha256(content).hexdigest() for name, content in members.items()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.writestr("manifest.json", json.dumps(manifest))


def less_noise(members):
    scales = np.frombuffer(members["looks/scales.npy"][-8:], np.float64)
    members["looks/scales.npy"] = members["looks/scales.npy"][:-8] + (scales / 2).tobytes()


def other_unit(members):
    members["answers.json"] = members["answers.json"].replace(b'"at_most": 1', b'"at_most": 2')


def other_kind(members):
    members["answers.json"] = members["answers.json"].replace(b"residuals", b"marginals")


def fewer_values(members):
    members["looks/noisy.npy"] = members["looks/noisy.npy"][:-8]


def cheaper(members):
    ledger = json.loads(members["ledger.json"])
    ledger["events"] = ledger["events"][:0]
    members["ledger.json"] = json.dumps(ledger).encode()


@pytest.mark.parametrize("kind", ["equal", "residual"])
@pytest.mark.parametrize("change", [less_noise, other_unit, fewer_values, cheaper, lambda m: m.update(x=b"")])
def test_a_careful_edit_is_refused(kind, change, tmp_path):
    answers(kind).save(tmp_path / "answers.npz")
    tampered(tmp_path / "answers.npz", change)
    with pytest.raises(ValueError, match="must be a whole, unchanged unbiased answers file"):
        load_unbiased_answers(tmp_path / "answers.npz")


def test_damage_and_other_files_are_refused(tmp_path):
    answers("residual").save(tmp_path / "answers.npz")
    content = (tmp_path / "answers.npz").read_bytes()
    for place in (100, content.index(b"NUMPY") + 200, len(content) // 2):
        broken = bytearray(content)
        broken[place] ^= 1
        (tmp_path / "broken.npz").write_bytes(bytes(broken))
        with pytest.raises(ValueError, match="must be a whole"):
            load_unbiased_answers(tmp_path / "broken.npz")
    with pytest.raises(ValueError, match="must be a whole"):
        pmw.load_release(tmp_path / "answers.npz")
    tampered(tmp_path / "answers.npz", other_kind)
    with pytest.raises(ValueError, match="must be a whole"):
        load_unbiased_answers(tmp_path / "answers.npz")


def test_frames_have_labels_estimates_errors_and_intervals(tmp_path):
    pytest.importorskip("pyarrow", reason="frames need privmw[io]")
    pytest.importorskip("pandas", reason="the frame is a pandas one")
    release = answers("residual")
    frame = release.to_frame("pandas", workload=Workload(DOMAIN, [("sex", "edu"), ("age",)]))
    assert list(frame.columns) == [
        *("attribute_1", "value_1", "attribute_2", "value_2"),
        *("answer", "standard_error", "low", "high"),
    ]
    assert frame.iloc[4][["attribute_1", "value_1", "attribute_2", "value_2"]].tolist() == [
        "sex",
        "M",
        "edu",
        "yes",
    ]
    np.testing.assert_allclose(frame["high"] - frame["answer"], 1.959964 * frame["standard_error"], rtol=1e-6)
    wide = release.to_frame("pandas", level=0.95, simultaneous=True)
    assert (wide["high"] - wide["low"] > 4 * wide["standard_error"]).all() or (
        wide["standard_error"] == 0
    ).any()
    release.write(tmp_path / "answers.parquet")
    release.write(tmp_path / "answers.seeded.csv")
    import pandas

    np.testing.assert_allclose(pandas.read_parquet(tmp_path / "answers.parquet")["answer"], release.answers())
    np.testing.assert_allclose(pandas.read_csv(tmp_path / "answers.seeded.csv")["answer"], release.answers())
    with pytest.raises(ValueError, match="must have 'seeded' in its name"):
        release.write(tmp_path / "answers.csv")
    with pytest.raises(ValueError, match="must end in"):
        release.write(tmp_path / "answers.txt")
    with pytest.raises(ValueError, match="kind"):
        release.to_frame("excel")


@pytest.mark.parametrize(
    ("ask", "error", "match"),
    [
        (lambda a: a.answers(Workload(DOMAIN, [("age", "edu")])), ValueError, "must lie inside a marginal"),
        (lambda a: a.standard_errors(Workload(DOMAIN, [("age", "edu")])), ValueError, "must lie inside"),
        (lambda a: a.answers(Workload.all(pmw.Domain({"x": 2}), k=1)), ValueError, "on the domain"),
        (lambda a: a.answers([("age",)]), TypeError, "must be a Workload"),
        (lambda a: a.estimates([{"age": 4}]), ValueError, "age"),
        (lambda a: a.estimates([{"age": [1, 1]}]), ValueError, "must not repeat"),
        (lambda a: a.estimates([{"age": "old"}]), TypeError, "must be a code"),
        (lambda a: a.estimates([{"age": []}]), TypeError, "must be a code"),
        (lambda a: a.estimates([{"height": 1}]), ValueError, r"query\[0\] is not in the domain"),
        (lambda a: a.estimates(["age"]), TypeError, "must be a mapping"),
        (lambda a: a.covariance([{"age": 0, "edu": 0}]), ValueError, "must lie inside"),
    ],
)
def test_questions_without_an_answer_are_refused(ask, error, match):
    with pytest.raises(error, match=match):
        ask(answers("residual"))


def test_values_that_no_look_released_are_refused():
    release = answers("equal")
    given = {"ledger": release.ledger, "settings": {}}
    with pytest.raises(ValueError, match="must be one for each of"):
        UnbiasedAnswers(release.shot, release.noisy[1:], **given)
    with pytest.raises(ValueError, match="must be 8"):
        UnbiasedAnswers(release.shot, [release.noisy[0][1:], *release.noisy[1:]], **given)
    with pytest.raises(TypeError, match="int64"):
        UnbiasedAnswers(release.shot, [values.astype(float) for values in release.noisy], **given)
    with pytest.raises(AttributeError, match="immutable"):
        release.noisy = ()
    with pytest.raises(ValueError, match="read-only"):
        release.noisy[0][0] = 3


@pytest.mark.parametrize("kind", ["equal", "hdmm", "residual"])
def test_a_fit_of_looks_is_unbiased_without_constraints_and_non_negative_with_them(kind):
    release = answers(kind, workload=Workload(DOMAIN, [("age", "sex"), ("sex", "edu")]))
    measured = release.noisy_marginals()
    free = ols(measured, total=release.n)
    for names in (("age", "sex"), ("sex", "edu")):
        fitted = free.marginal(names).ravel() / release.n
        np.testing.assert_allclose(fitted, release.answers(Workload(DOMAIN, [names])), atol=1e-6)
    fit = nnls(measured, total=release.n)
    assert fit.weights.min() >= 0
    assert fit.weights.sum() == pytest.approx(release.n)
    assert fit.certificate.kkt < 1e-6


def test_precisions_of_residuals_are_those_of_their_likelihood():
    release = answers("residual", workload=Workload(DOMAIN, [("age", "sex")]))
    measured = release.noisy_marginals()
    shot = release.shot
    rng = np.random.default_rng(0)
    move = rng.normal(size=(4, 2))
    move -= move.mean()  # the total stays
    by_residuals = 0.0
    for inside, precision in zip(shot.closure.looks(), shot.precision.tolist(), strict=True):
        table = {(0,): move.sum(axis=1), (1,): move.sum(axis=0)}.get(inside, move)
        for axis in range(table.ndim):
            table = table - table.mean(axis=axis, keepdims=True)
        by_residuals += precision * (table**2).sum()
    tables = {("age",): move.sum(axis=1), ("sex",): move.sum(axis=0), ("age", "sex"): move}
    by_marginals = sum(
        (tables[names] ** 2).sum() / measured.variances[measured.offsets[j]]
        for j, names in enumerate(measured.marginals)
    )
    if len(measured) == 3:  # none was left out
        assert by_marginals == pytest.approx(by_residuals)
    assert by_marginals >= by_residuals * (1 - 1e-9)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_answers_make_frames_of_the_kind_that_came_in(kind, tmp_path):
    for library in ("pyarrow", "narwhals", kind):
        pytest.importorskip(library)
    frame = pmw.Table.from_codes(CODES, DOMAIN, private=False).to_frame(kind)
    private = pmw.Table.from_frame(frame, DOMAIN, private=True)
    found = answers("equal", private=private)
    for same in (found, pickle.loads(pickle.dumps(found))):
        assert type(same.to_frame()) is type(frame)
    found.save(tmp_path / "answers.npz")
    assert type(load_unbiased_answers(tmp_path / "answers.npz").to_frame()).__module__ == "pyarrow.lib"
