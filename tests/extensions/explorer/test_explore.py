"""The explorer's file: all that it holds, that it holds nothing else, and that it needs nothing else."""

import base64
import hashlib
import json
import re
import zlib

import numpy as np
import pytest

import privmw as pmw
from privmw.cli import main
from privmw.extensions import explorer
from privmw.extensions.explorer import marginals_with_intervals, pack
from privmw.release.errors import measured_intervals_of
from report.cases import HOSTILE, by_hand, hostile, runs, unusual

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")


def taken_apart(page):
    """The facts of a page, and its bytes."""
    found = re.search(r'<script type="application/json" id="facts">(.*?)</script>', page, re.DOTALL)
    packed = re.search(r'<script type="application/octet-stream" id="rows">(.*?)</script>', page, re.DOTALL)
    return json.loads(found[1]), zlib.decompress(base64.b64decode(packed[1]))


def unpacked(page):
    """Facts, released masses, public masses, columns and bounds, read as the page's script reads them."""
    facts, data = taken_apart(page)
    rows, at = facts["rows"], 0

    def take(size):
        nonlocal at
        at += size
        return np.frombuffer(data[at - size : at], np.uint8)

    def masses():
        return np.ascontiguousarray(take(8 * rows).reshape(8, rows).T).view("<i8").ravel()

    weights = [masses() for _ in range(1 + facts["public"])]
    columns = []
    for column in facts["columns"]:
        bits = column["bits"]
        if bits < 8:
            places = np.arange(0, 8, bits)
            codes = (take(-(-rows * bits // 8))[:, None] >> places & 2**bits - 1).ravel()[:rows]
        else:
            codes = take(rows * bits // 8).view(f"<u{bits // 8}")
        columns.append(codes if column["codes"] is None else np.array(column["codes"])[codes])
    bounds = take(len(data) - at).view("<f4").reshape(2, -1)
    return facts, weights, columns, bounds


@pytest.mark.parametrize(
    "name", ["auto", "60,000 values", "a huge attribute", "grown by hand", "no public row"]
)
def test_every_row_travels_with_both_weights_and_every_code(name):
    release = {**runs(), **unusual()}[name]
    facts, weights, columns, _ = unpacked(explorer.render_explorer(release))
    support = release.support
    assert facts["sample"] is None
    assert facts["rows"] == support.size
    assert weights[0].tolist() == np.rint(release.weights * 2.0**60).astype(np.int64).tolist()
    assert len(weights) == (2 if support.records else 1)
    if support.records:
        assert weights[1].tolist() == np.rint(support.start() * 2.0**60).astype(np.int64).tolist()
    for place, attribute in enumerate(support.domain.attributes):
        assert columns[place].tolist() == support.rows[:, place].tolist()
        listed = facts["columns"][place]["codes"] or range(attribute.size)
        assert facts["columns"][place]["labels"] == [str(attribute.label(code)) for code in listed]


def test_only_intervals_that_are_known_travel():
    release = runs()["auto"]
    asked = pmw.Workload.all(release.support.domain, k=[1, 2])  # pairs were measured
    known = measured_intervals_of(release, 0.95, asked)
    assert known.offered.all()
    assert set(asked) < set(marginals_with_intervals(release.support.domain))
    facts, _, _, (noisy, reach) = unpacked(explorer.render_explorer(release))
    assert facts["intervals"] == "measured"
    assert facts["marginals"] == asked.attributes.tolist()
    assert noisy == pytest.approx(known.noisy, rel=1e-6)
    assert np.maximum(np.clip(noisy, 0, 1) - reach, 0) == pytest.approx(known.low, abs=1e-6)
    assert np.minimum(np.clip(noisy, 0, 1) + reach, 1) == pytest.approx(known.high, abs=1e-6)
    fitted = release.intervals(0.9, workload=asked, refits=10)
    facts, _, _, (low, high) = unpacked(explorer.render_explorer(release, intervals=fitted))
    assert (facts["intervals"], facts["level"]) == ("fitted", 0.9)
    assert low == pytest.approx(fitted.low, abs=1e-6)
    assert high == pytest.approx(fitted.high, abs=1e-6)
    some = by_hand()  # no marginal was measured whole
    assert unpacked(explorer.render_explorer(some))[0]["marginals"] == []


def test_a_sample_is_stated_and_has_the_size_that_was_asked_for():
    release = runs()["auto"]
    page = explorer.render_explorer(release, rows=20)
    facts, (released, public), columns, _ = unpacked(page)
    assert facts["sample"] == 10
    assert facts["rows"] <= 20
    assert "a sample of 10 synthetic records" in page
    for masses in (released, public):
        assert np.isclose(masses.sum() / 2.0**60, 1)
        assert set(np.rint(masses * 10 / 2.0**60)) <= set(range(11))
    there = {tuple(row) for row in release.support.rows.tolist()}
    assert {tuple(row) for row in np.stack(columns, axis=1).tolist()} <= there
    assert "a sample of" not in explorer.render_explorer(release)


def test_rows_that_do_not_fit_become_a_sample_that_does(monkeypatch):
    from privmw.extensions.explorer import explorer as page_of

    release = unusual()["60,000 values"]
    whole = explorer.render_explorer(release)
    monkeypatch.setattr(page_of, "PAGE_BYTES", 0)
    size = len(re.search(r'id="rows">(.*?)</script>', whole)[1])
    monkeypatch.setattr(page_of, "MOST_BYTES", size // 4)
    page = explorer.render_explorer(release)
    assert len(re.search(r'id="rows">(.*?)</script>', page)[1]) <= size // 4 + 4
    assert taken_apart(page)[0]["sample"] > 10


def test_names_cannot_break_out_and_nothing_can_be_fetched():
    page = explorer.render_explorer(hostile(), title=HOSTILE, folder=HOSTILE)
    scripts = re.findall(r"<script[^>]*>", page)
    assert scripts == [
        '<script type="application/json" id="facts">',
        '<script type="application/octet-stream" id="rows">',
        "<script>",
    ]
    assert page.count("</script>") == 3
    assert page.count("</style>") == 1
    facts, _ = taken_apart(page)
    assert facts["columns"][0]["name"] == HOSTILE
    assert facts["folder"] == HOSTILE
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    script = re.search(r"<script>(.*)</script>", page, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in policy
    without = page.replace("http://www.w3.org/2000/svg", "")  # a name, which nothing fetches
    assert not re.search(r"https?:|url\(|@import|\bsrc=|fetch\(|XMLHttpRequest|innerHTML|eval\(", without)
    assert page.startswith("<!DOCTYPE html>")


def test_a_seeded_release_is_marked_and_another_is_not():
    assert "NOT FOR RELEASE" in explorer.render_explorer(runs()["auto"])
    assert "NOT FOR RELEASE" not in explorer.render_explorer(by_hand())


def test_the_same_release_gives_the_same_bytes():
    assert explorer.render_explorer(by_hand()) == explorer.render_explorer(by_hand())
    assert explorer.render_explorer(runs()["auto"], rows=7) == explorer.render_explorer(
        runs()["auto"], rows=7
    )


def test_only_releases_and_their_intervals_are_explored():
    with pytest.raises(TypeError, match=r"release \(3\) must be a Release"):
        explorer.render_explorer(3)
    with pytest.raises(TypeError, match=r"intervals \(3\) must be FittedIntervals"):
        explorer.render_explorer(by_hand(), intervals=3)
    with pytest.raises(ValueError, match=r"rows \(0\) must be"):
        explorer.render_explorer(by_hand(), rows=0)
    other = runs()["auto"].intervals(refits=10)
    with pytest.raises(ValueError, match="intervals must be on the domain of the release"):
        explorer.render_explorer(by_hand(), intervals=other)


def test_the_command_writes_one_file_and_never_over_another(tmp_path, capsys):
    release = runs()["auto"]
    release.save(tmp_path / "release.npz")
    assert main(["explore", str(tmp_path), "--title", "People of 2018", "--intervals", "0.9"]) == 0
    page = (tmp_path / "explore.html").read_text("utf-8")
    assert "<h1>People of 2018</h1>" in page
    assert taken_apart(page)[0]["intervals"] == "fitted"
    assert taken_apart(page)[0]["folder"] == str(tmp_path)
    assert main(["explore", str(tmp_path)]) == 2
    assert "explore.html) exists" in capsys.readouterr().err
    assert main(["explore", str(tmp_path), "-o", str(tmp_path / "b.html"), "--sample", "9", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts == {
        "output": str(tmp_path / "b.html"),
        "bytes": (tmp_path / "b.html").stat().st_size,
        "for_release": False,
    }
    assert main(["explore", str(tmp_path / "nowhere")]) == 2


def test_intervals_that_are_not_offered_are_said_so(tmp_path, capsys):
    runs()["rounds"].save(tmp_path / "release.npz")
    assert main(["explore", str(tmp_path), "--intervals", "0.9"]) == 0
    assert "No intervals by refits: the response of MWPub to noise is not known" in capsys.readouterr().err


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 33])
def test_codes_are_packed_with_the_first_in_the_lowest_bits(count):
    for size in [1, 2, 3, 4, 5, 16, 17, 256, 257, 70_000]:
        codes = np.random.default_rng(count).integers(0, size, count)
        width, data = pack.width_of(size), pack.pack_codes(codes, size)
        bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
        read = [int("".join(map(str, bits[i * width : (i + 1) * width][::-1])), 2) for i in range(count)]
        assert read == codes.tolist()
        assert len(data) == -(-count * width // 8)


def test_a_release_writes_its_page(tmp_path):
    by_hand().explore(tmp_path / "explore.html")
    assert (tmp_path / "explore.html").read_text("utf-8") == explorer.render_explorer(by_hand())
