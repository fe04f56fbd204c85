import pickle

import numpy as np
import pytest

import privmw as pmw
from privmw.data.blocks import mixed_frequencies, moved_block_weights
from privmw.extensions.cluster import ShardedSupport
from privmw.ranks import ALONE

DOMAIN = pmw.Domain({"age": 3, "sex": ["F", "M"], "job": 4})
RNG = np.random.default_rng(7)
CODES = [RNG.integers(0, [3, 2, 4], (n, 3)) for n in (30, 5, 200)]
TABLES = [pmw.Table.from_codes(codes, DOMAIN, private=False) for codes in CODES]
SUPPORTS = [pmw.Support.from_table(table) for table in TABLES]


def test_several_tables_give_the_union_of_their_rows_and_the_mixture_of_their_frequencies():
    support = pmw.Support.from_tables(TABLES)
    rows = np.unique(np.concatenate(CODES), axis=0)
    assert np.array_equal(support.rows, rows)
    for block, codes in enumerate(CODES):
        counts = [(codes == row).all(axis=1).sum() for row in rows]
        assert np.array_equal(support.blocks[:, block], counts)
    assert np.array_equal(support.counts, support.blocks.sum(axis=1))
    assert support.records == 235
    assert repr(support).endswith("of 235 public records in 3 tables)")
    workload = pmw.Workload.all(DOMAIN, k=2)
    mean = np.mean([one.answers(workload) for one in SUPPORTS], axis=0)
    assert np.allclose(support.answers(workload), mean, atol=1e-12)
    assert np.allclose(support.answers(workload, support.start()), mean, atol=1e-12)
    weighted = pmw.Support.from_tables(SUPPORTS, weights=[1, 0, 3])
    expected = 0.25 * SUPPORTS[0].answers(workload) + 0.75 * SUPPORTS[2].answers(workload)
    assert np.allclose(weighted.answers(workload), expected, atol=1e-12)
    assert weighted == support.with_block_weights([0.5, 0, 1.5])
    assert weighted != support
    assert weighted.fingerprint() != support.fingerprint()


def test_one_table_is_its_support():
    assert pmw.Support.from_tables(TABLES[:1]) == SUPPORTS[0]
    assert pmw.Support.from_tables(TABLES[:1]).blocks is None


def test_blocks_survive_pickle_further_rows_widening_and_the_file_of_a_release(tmp_path):
    support = pmw.Support.from_tables(TABLES[:2], weights=[3, 1])
    assert pickle.loads(pickle.dumps(support)) == support
    wider = support.with_rows([[0, 0, 0], [2, 1, 3], [2, 0, 3], [1, 1, 1]])
    assert np.array_equal(wider.support.blocks[wider.places], support.blocks)
    assert np.array_equal(wider.support.start()[wider.places], support.start())
    assert wider.support.grown == wider.support.size - support.size
    widened = wider.support.widened(times=3, share=0.1)
    assert widened.size > wider.support.size
    for block in range(2):
        alone = SUPPORTS[block].widened(times=3, share=0.1)
        here = widened.blocks[:, block] > 0
        assert np.array_equal(widened.rows[here], alone.rows)
        assert np.array_equal(widened.blocks[here, block], alone.counts)
    ledger = pmw.accounting.Ledger(pmw.Budget.zcdp(1), pmw.accounting.Neighbors.REPLACE_ONE, n=4)
    workload = pmw.Workload.all(DOMAIN, k=2)
    release = pmw.Release(widened, workload, widened.start(), ledger=ledger, settings={})
    release.save(tmp_path / "x.release")
    assert pmw.load_release(tmp_path / "x.release") == release


def test_an_algorithm_starts_at_the_mixture():
    private = pmw.Table.from_codes(CODES[2], DOMAIN, private=True)
    workload = pmw.Workload.all(DOMAIN, k=2)
    support = pmw.Support.from_tables(TABLES)
    release = pmw.release_auto(private, support, workload, epsilon=1, rng=0, public_is_public=True)
    assert abs(release.answers() - private.counts(workload) / 200).max() < 0.2


def test_rules_hold_for_every_table():
    constraints = pmw.Constraints({"invalid": [{"sex": ["F"]}]}, DOMAIN)
    support = pmw.Support.from_tables(TABLES, constraints)
    assert support.constraints == constraints
    assert (support.rows[:, 1] == 1).all()
    none = pmw.Table.from_codes([[0, 0, 0]], DOMAIN, private=False)
    with pytest.raises(ValueError, match="constraints must leave a row"):
        pmw.Support.from_tables([TABLES[0], none], constraints)
    with pytest.raises(ValueError, match="constraints must be given"):
        pmw.Support.from_tables([TABLES[0], pmw.Support.from_table(TABLES[1], constraints)])


def test_bad_tables_and_weights_are_refused():
    other = pmw.Table.from_codes([[0]], pmw.Domain({"age": 3}), private=False)
    private = pmw.Table.from_codes(CODES[0], DOMAIN, private=True)
    for tables, message in (
        ([], "must be at least one"),
        ([TABLES[0], other], r"tables\[1\] .* must be on the domain of the first table"),
        ([TABLES[0], private], r"tables\[1\] \(a private table\) must be public"),
        ([TABLES[0], pmw.Support.from_tables(TABLES)], r"tables\[1\] .* must be of one table"),
        ([TABLES[0], pmw.Support.without_public(DOMAIN)], r"tables\[1\] .* must be of one table"),
    ):
        with pytest.raises(ValueError, match=message):
            pmw.Support.from_tables(tables)
    for junk in (TABLES[0], SUPPORTS[0], 3, "ab"):
        with pytest.raises(TypeError, match="must be a list of public tables"):
            pmw.Support.from_tables(junk)
    with pytest.raises(
        TypeError, match=r"tables\[1\] \(int\) must be a Table: Table\.from_frame or read_table makes one"
    ):
        pmw.Support.from_tables([TABLES[0], 3])
    for weights in ([1], [1, -1, 1], [0, 0, 0], [1, np.nan, 1], ["a", "b", "c"]):
        with pytest.raises(ValueError, match="weights"):
            pmw.Support.from_tables(TABLES, weights=weights)
    with pytest.raises(ValueError, match="must be of several tables"):
        SUPPORTS[0].with_block_weights([1])
    with pytest.raises(ValueError, match="must be of one table to be sharded"):
        ShardedSupport.of(pmw.Support.from_tables(TABLES), ALONE)
    support = pmw.Support.from_tables(TABLES)
    with pytest.raises(ValueError, match="blocks must add up to counts"):
        pmw.Support(support.table, support.counts, blocks=support.blocks + 1, block_weights=np.ones(3))
    with pytest.raises(TypeError, match="with block_weights"):
        pmw.Support(support.table, support.counts, blocks=support.blocks)


def likelihood(blocks, fitted, weights):
    mixture = mixed_frequencies(blocks, weights)
    return float(fitted[fitted > 0] @ np.log(mixture[fitted > 0]))


def test_moved_block_weights_are_the_step_by_hand():
    blocks = np.array([[1, 0], [1, 3], [0, 1], [0, 0]])
    fitted = np.array([0.1, 0.5, 0.2, 0.2])
    shares = np.array([0.1 * 1 + 0.5 * 0.25 / 0.625, 0.5 * 0.375 / 0.625 + 0.2])
    # p = (.5, .5, 0, 0) and (0, .75, .25, 0); the last row is in neither, and says nothing.
    assert np.allclose(moved_block_weights(blocks, fitted, np.array([0.5, 0.5])), shares / 0.8)
    assert moved_block_weights(blocks, np.array([0, 0, 0, 1.0]), np.array([0.3, 0.7])).tolist() == [0.3, 0.7]
    assert moved_block_weights(blocks, fitted, np.array([0.0, 1.0])).tolist() == [0, 1]
    with pytest.raises(ValueError, match="must be one for each column"):
        moved_block_weights(blocks, fitted, np.ones(3))


def test_moved_block_weights_find_the_mixture_and_never_lose_likelihood():
    support = pmw.Support.from_tables(TABLES)
    true = np.array([0.2, 0.1, 0.7])
    fitted = mixed_frequencies(support.blocks, true)
    weights, before = support.block_weights, likelihood(support.blocks, fitted, support.block_weights)
    for _ in range(2000):
        weights = moved_block_weights(support.blocks, fitted, weights)
        after = likelihood(support.blocks, fitted, weights)
        assert after >= before - 1e-13
        before = after
    assert np.allclose(weights, true, atol=1e-3)
