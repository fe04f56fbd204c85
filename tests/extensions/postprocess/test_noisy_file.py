"""Noisy counts in a file must be read as they were written, by us or by others, or refused in one line."""

import itertools

import numpy as np
import pytest

import privmw as pmw
from privmw.accounting.noise import make_noise
from privmw.extensions.postprocess import NoisyMarginal, NoisyMarginals, read_noisy_marginals
from privmw.release.cells import write_measurements
from privmw.release.measurements import Measurement

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

DOMAIN = pmw.Domain(
    {"age": {"edges": [0, 10, 100], "missing": "N"}, "sex": ["F", "M"], "zip": 5, "": 2, "x, y": ["", "a"]}
)
HEADER = "attribute_1,value_1,attribute_2,value_2,noisy_count,noise,scale"


def write_csv(folder, *rows, header=HEADER):
    path = folder / "m.csv"
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def write_parquet(folder, **columns):
    given = {
        "attribute_1": ["sex", "sex"],
        "value_1": ["F", "M"],
        "noisy_count": [1.5, 2.0],
        "noise": ["laplace"] * 2,
        "scale": [2.0, 2.0],
        **columns,
    }
    path = folder / "m.parquet"
    parquet.write_table(
        pa.table({name: values for name, values in given.items() if values is not None}), path
    )
    return path


def same(found, expected):
    assert found.marginals == expected.marginals
    assert found.noises == expected.noises
    np.testing.assert_array_equal(found.noisy_counts, expected.noisy_counts)
    np.testing.assert_array_equal(found.variances, expected.variances)


def test_what_a_release_measured_is_read_back(tmp_path):
    table = pmw.Table.from_codes(
        np.random.default_rng(0).integers(0, DOMAIN.sizes, (99, 5)), DOMAIN, private=True
    )
    workload = pmw.Workload.all(DOMAIN, k=(1, 2, 3))
    mechanism = pmw.MWPub(rounds=9, measure="cell", warm_up=0.4, order=2).calibrate(rho=1)
    release = mechanism(table, pmw.Support.full(DOMAIN), workload, rng=1)
    write_measurements(release, tmp_path / "measurements.parquet")
    found, expected = (
        read_noisy_marginals(tmp_path / "measurements.parquet", DOMAIN),
        NoisyMarginals.of_release(release),
    )
    assert sorted(found.marginals) == sorted(expected.marginals)
    for names in found.marginals:
        i, j = found.index(names), expected.index(names)
        here, there = slice(*found.offsets[i : i + 2]), slice(*expected.offsets[j : j + 2])
        np.testing.assert_allclose(found.noisy_counts[here], expected.noisy_counts[there], rtol=1e-12)
        np.testing.assert_allclose(found.variances[here], expected.variances[there], rtol=1e-12)


def test_every_kind_of_row_is_read_from_csv(tmp_path):
    path = write_csv(
        tmp_path,
        "age,5,,,10,laplace,2",
        "age,N,,,-1.5,laplace,2",
        ",,,,93,gaussian,4",
        "sex,M,age,99,7,discrete-laplace,1",
        "age,0,sex,F,8,discrete-laplace,1",
    )
    domain = DOMAIN.project(["age", "sex"])
    found = read_noisy_marginals(path, domain)
    assert found.marginals == (("age",), (), ("age", "sex"))
    np.testing.assert_array_equal(found.noisy_counts, [10, 0, -1.5, 93, 8, 0, 0, 7, 0, 0])
    assert np.isinf(found.variances[[1, 5, 6, 8, 9]]).all()
    assert found.noises == (
        make_noise("laplace", 2),
        make_noise("gaussian", 4),
        make_noise("discrete-laplace", 1),
    )


def test_parquet_of_other_kinds_means_the_same(tmp_path):
    columns = {
        "attribute_1": pa.array(["zip", None, "sex"]).dictionary_encode(),
        "value_1": pa.array(["3", None, "M"]),
        "attribute_2": pa.array([None, None, None], pa.null()),
        "value_2": pa.array([None, None, None], pa.null()),
        "noisy_count": pa.array([4, 9, 5], pa.int32()),
        "noise": pa.array(["gaussian"] * 3, pa.large_string()),
        "scale": pa.array([1, 1, 1], pa.int8()),
        "round": [0, 1, 2],
        "note": ["any", "thing", None],
    }
    found = read_noisy_marginals(write_parquet(tmp_path, **columns), DOMAIN)
    same(
        found,
        NoisyMarginals.of_cells(
            DOMAIN,
            [("zip",), (), ("sex",)],
            [("gaussian", 1.0)],
            marginal_of=[0, 1, 2],
            cells=[3, 0, 1],
            noisy_counts=[4, 9, 5],
            noise_of=[0, 0, 0],
        ),
    )


def test_whole_numbers_are_values_too(tmp_path):
    path = write_parquet(tmp_path, attribute_1=["zip", "zip"], value_1=[3, 0])
    assert read_noisy_marginals(path, DOMAIN).noisy_counts.tolist() == [2.0, 0, 0, 1.5, 0]


def test_an_attribute_without_a_name_and_an_empty_label_are_read(tmp_path):
    path = write_parquet(tmp_path, attribute_1=["", "x, y"], value_1=["1", ""])
    found = read_noisy_marginals(path, DOMAIN)
    assert found.marginals == (("",), ("x, y",))
    assert found.noisy_counts.tolist() == [0, 1.5, 2.0, 0]


def test_a_cell_measured_twice_is_combined_by_inverse_variances(tmp_path):
    path = write_csv(tmp_path, "sex,F,,,10,gaussian,1", "sex,F,,,15,gaussian,2", "sex,M,,,3,gaussian,1")
    found = read_noisy_marginals(path, DOMAIN.project(["age", "sex"]))
    np.testing.assert_allclose(found.noisy_counts, [11, 3])
    np.testing.assert_allclose(found.variances, [0.8, 1])
    assert found.noises == (None,)


def test_any_order_of_attributes_and_rows_is_one_marginal(tmp_path):
    rng = np.random.default_rng(1)
    sizes, names = DOMAIN.project(["age", "sex", "zip"]).sizes, ("age", "sex", "zip")
    counts = rng.normal(size=sizes)
    rows = []
    for codes in itertools.product(*map(range, sizes)):
        words = [(name, str(DOMAIN[name].label(code))) for name, code in zip(names, codes, strict=True)]
        rows.append([*itertools.chain(*rng.permutation(words).tolist()), counts[codes]])
    rng.shuffle(order := np.arange(len(rows)))
    columns = list(zip(*(rows[i] for i in order), strict=True))
    path = write_parquet(
        tmp_path,
        **{
            f"{kind}_{k}": columns[2 * (k - 1) + (kind == "value")]
            for k in (1, 2, 3)
            for kind in ("attribute", "value")
        },
        noisy_count=columns[6],
        noise=["gaussian"] * len(rows),
        scale=[3.0] * len(rows),
    )
    same(
        read_noisy_marginals(path, DOMAIN),
        NoisyMarginals([NoisyMarginal(names, counts, "gaussian", 3)], DOMAIN),
    )


def test_many_batches_and_files_are_one(tmp_path, monkeypatch):
    monkeypatch.setattr("privmw.io.files.PARQUET_BATCH_ROWS", 2)
    (tmp_path / "parts").mkdir()
    whole = write_parquet(
        tmp_path,
        attribute_1=["zip"] * 5,
        value_1=list("03124"),
        noisy_count=[0, 3, 1, 2, 4],
        noise=["laplace"] * 5,
        scale=[1.0] * 5,
    )
    table = parquet.read_table(whole)
    parquet.write_table(table.slice(0, 2), tmp_path / "parts" / "a.parquet")
    parquet.write_table(table.slice(2), tmp_path / "parts" / "b.parquet")
    for path in (whole, tmp_path / "parts"):
        assert read_noisy_marginals(path, DOMAIN).noisy_counts.tolist() == [0, 1, 2, 3, 4]


def test_a_histogram_of_very_many_attributes_is_read(tmp_path):
    domain = pmw.Domain({f"x{i}": 2 if i < 18 else 1 for i in range(40)})
    rows = {"attribute": domain.names, "value": ["1"] * 18 + ["0"] * 22}
    columns = {f"{kind}_{k + 1}": [rows[kind][k]] for k in range(40) for kind in rows}
    path = write_parquet(tmp_path, **columns, noisy_count=[7], noise=["gaussian"], scale=[1.0])
    found = read_noisy_marginals(path, domain)
    assert found.noisy_counts[-1] == 7
    assert np.isfinite(found.variances).sum() == 1


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            "agee,5,,,1,laplace,2",
            "column 'attribute_1': attribute 'agee' is not in the domain; did you mean 'age'?",
        ),
        (
            "age,5,sex,X,1,laplace,2",
            "column 'value_2': attribute 'sex': value ('X') must be one of its 2 labels",
        ),
        ("age,101,,,1,laplace,2", "column 'value_1': attribute 'age': value (101) must be from 0 to 100"),
        (
            "sex,,,,1,laplace,2",
            "column 'value_1': attribute 'sex': value is missing, but none is declared missing",
        ),
        (",F,,,1,laplace,2", "column 'value_1' (row 1) must be empty where attribute_1 is"),
        ("sex,F,sex,F,1,laplace,2", "column 'attribute_1' (row 1) must differ from the others of its row"),
        ("sex,F,,,nan,laplace,2", "column 'noisy_count' (nan, row 1) must be finite, and at most 2^62"),
        ("sex,F,,,-inf,laplace,2", "column 'noisy_count' (-inf, row 1) must be finite, and at most 2^62"),
        ("sex,F,,,1e30,laplace,2", "column 'noisy_count' (1e+30, row 1) must be finite, and at most 2^62"),
        ("sex,F,,,many,laplace,2", "column 'noisy_count'"),
        ("sex,F,,,,laplace,2", "column 'noisy_count'"),
        ("sex,F,,,1,cauchy,2", "noise ('cauchy') must be one of laplace, gaussian"),
        ("sex,F,,,1,,2", "noise ('') must be one of"),
        ("sex,F,,,1,laplace,0", "scale (0.0) must be from 2^-62 to 2^62"),
        ("sex,F,,,1,laplace,-1", "scale (-1.0) must be from 2^-62 to 2^62"),
        ("sex,F,,,1,laplace,inf", "scale (inf) must be finite"),
        ("sex,F,,,1,laplace,nan", "scale (nan) must be finite"),
        ("sex,F,,,1,laplace,wide", "column 'scale'"),
        ("sex,F,,,1,laplace", "must be a csv file in its encoding, each row as long as the header"),
    ],
)
def test_a_bad_row_is_refused_in_one_line(row, said, tmp_path):
    path = write_csv(tmp_path, "age,5,sex,F,1,laplace,2", row)
    with pytest.raises(ValueError, match=r"m\.(csv|parquet)") as refused:
        read_noisy_marginals(path, DOMAIN.project(["age", "sex"]))
    assert str(refused.value).startswith(str(path))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"noise": None}, "column 'noise' is missing"),
        ({"scale": None, "scales": [1, 2]}, "column 'scale' is missing; did you mean 'scales'?"),
        ({"noisy_count": None}, "column 'noisy_count' is missing"),
        ({"value_1": None}, "column 'value_1' is missing"),
        ({"attribute_1": None, "value_1": None}, "column 'attribute_1' is missing"),
        ({"attribute_3": ["sex"] * 2}, "column 'attribute_2' is missing"),
        ({"value_999999999": ["sex"] * 2}, "column 'attribute_2' is missing"),
        ({"noisy_count": [None, 2.0]}, "column 'noisy_count' (nan, row 0) must be finite"),
        ({"noisy_count": [True, False]}, "column 'noisy_count' (booleans) must hold numbers"),
        ({"scale": [None, 2.0]}, "scale (nan) must be finite"),
        ({"noise": ["laplace", None]}, "column 'noise' (row 1) must not be empty"),
        ({"value_1": ["F", None]}, "column 'value_1' (row 1) must not be empty where attribute_1 is not"),
        ({"attribute_1": [["sex"], ["sex"]]}, "column 'attribute_1' (list<element: string>) must hold texts"),
    ],
)
def test_bad_columns_are_refused_in_one_line(columns, said, tmp_path):
    path = write_parquet(tmp_path, **columns)
    with pytest.raises(ValueError, match=r"m\.(csv|parquet)") as refused:
        read_noisy_marginals(path, DOMAIN)
    assert str(refused.value).startswith(str(path))
    assert said in str(refused.value)


def test_an_empty_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match="must not be empty"):
        read_noisy_marginals(write_csv(tmp_path), DOMAIN)
    (tmp_path / "m.csv").write_text("")
    with pytest.raises(ValueError, match="must not be empty"):
        read_noisy_marginals(tmp_path / "m.csv", DOMAIN)


def test_a_marginal_too_large_for_memory_is_refused(tmp_path):
    huge = pmw.Domain({"a": 2**32 - 1, "b": 2**32 - 1, "c": 2**32 - 1})
    path = write_csv(
        tmp_path,
        "a,4000000000,b,4000000000,c,4000000000,1,laplace,2",
        header=HEADER.replace("value_2", "value_2,attribute_3,value_3"),
    )
    with pytest.raises(
        ValueError, match=r"most of them of \('a', 'b', 'c'\)\) must have at most 2\^28 cells"
    ):
        read_noisy_marginals(path, huge)


def test_measurements_on_another_domain_are_refused(tmp_path):
    support = pmw.Support.full(DOMAIN)
    release = pmw.Release(
        support,
        pmw.Workload.all(DOMAIN, k=1),
        support.start(),
        measurements=[Measurement([0], [5], "discrete-laplace", 1.0, 0)],
        ledger=pmw.accounting.Ledger(pmw.Budget.zcdp(1), pmw.accounting.Neighbors.REPLACE_ONE, n=40),
        settings={},
    )
    write_measurements(release, tmp_path / "m.parquet")
    assert read_noisy_marginals(tmp_path / "m.parquet", DOMAIN).noisy_counts[0] == 5
    with pytest.raises(ValueError, match="the domain that it was measured on, which is another one"):
        read_noisy_marginals(tmp_path / "m.parquet", DOMAIN.project(["age", "sex"]))


@pytest.mark.parametrize("said", [b"not json", b"[]", b"{}", b"\xff"])
def test_what_others_write_under_our_key_is_no_matter(said, tmp_path):
    path = write_parquet(tmp_path)
    parquet.write_table(parquet.read_table(path).replace_schema_metadata({b"privmw": said}), path)
    assert read_noisy_marginals(path, DOMAIN).noisy_counts.tolist() == [1.5, 2.0]


def test_wrong_kinds_are_refused(tmp_path):
    with pytest.raises(TypeError, match="must be a Domain"):
        read_noisy_marginals(write_parquet(tmp_path), {"sex": 2})
    with pytest.raises(TypeError, match="must be a path"):
        read_noisy_marginals(3, DOMAIN)
    with pytest.raises(FileNotFoundError, match="must exist"):
        read_noisy_marginals(tmp_path / "none.csv", DOMAIN)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"marginals": [("age",), ("age",)]}, "must not repeat one"),
        ({"marginals": [("age", "age")]}, "must not repeat one"),
        ({"marginals": ["age"]}, "must be a tuple of names"),
        ({"marginals": [("age",), ("zip",)]}, "must each have a noisy count"),
        ({"marginal_of": [1]}, r"marginal_of \(entry 0\) must be from 0 to below what there is"),
        ({"marginal_of": [0, 0]}, "must be 1 integers, one a noisy count"),
        ({"cells": [3]}, r"cells \(entry 0\) must be from 0 to below what there is"),
        ({"cells": [-1]}, r"cells \(entry 0\) must be from 0 to below what there is"),
        ({"cells": [0.5]}, "must be 1 integers"),
        ({"noise_of": [1]}, r"noise_of \(entry 0\) must be from 0 to below what there is"),
        ({"noises": [("gaussian", 0.0)]}, "scale"),
        ({"noises": [("cauchy", 1.0)]}, "noise"),
        ({"noisy_counts": [np.nan]}, "finite"),
    ],
)
def test_cells_that_cannot_be_are_refused(changed, said):
    given = {
        "marginals": [("age",)],
        "noises": [("gaussian", 1.0)],
        "marginal_of": [0],
        "cells": [0],
        "noisy_counts": [1.0],
        "noise_of": [0],
        **changed,
    }
    with pytest.raises((TypeError, ValueError), match=said):
        NoisyMarginals.of_cells(DOMAIN, given.pop("marginals"), given.pop("noises"), **given)
