"""The generator's gradients, by finite differences and by another library, and its file."""

import numpy as np
import pytest

from privmw import Domain
from privmw.extensions.relaxed.generator import Generator, GeneratorShape, load_generator, matmul

DOMAIN = Domain({"a": 3, "b": 1, "c": 4, "d": 2})
SHAPES = {
    "two blocks": GeneratorShape(rows=7, inputs=3, widths=(5, 4)),
    "one block": GeneratorShape(rows=4, inputs=6, widths=(3,)),
    "linear": GeneratorShape(rows=5, inputs=2, widths=()),
    "two rows": GeneratorShape(rows=2, inputs=2, widths=(3, 3)),
}
TRUE_TO = 1e-5  # relative, in double precision


def generator_of(shape, seed=3):
    made = Generator(DOMAIN, shape, seed=seed, dtype=np.float64)
    # Away from scales of 1 and shifts of 0, where wrong gradients of batch norm could hide.
    made.parameters += np.random.default_rng(seed).normal(0, 0.3, len(made.parameters))
    return made


def relative(ours, theirs):
    return np.abs(ours - theirs).max() / np.abs(theirs).max()


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_gradients_are_those_of_finite_differences(shape):
    made = generator_of(shape)
    by_tables = np.random.default_rng(1).normal(size=(10, shape.rows))
    made.tables()
    gradient = made.gradient(by_tables)
    step, slopes = 1e-6, np.empty_like(gradient)
    for place in range(len(gradient)):
        there = made.parameters[place]
        made.parameters[place] = there + step
        above = float((made.tables() * by_tables).sum())
        made.parameters[place] = there - step
        below = float((made.tables() * by_tables).sum())
        made.parameters[place] = there
        slopes[place] = (above - below) / (2 * step)
    assert relative(gradient, slopes) < TRUE_TO


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_tables_and_gradients_are_those_of_automatic_differentiation(shape):
    autograd = pytest.importorskip("autograd")
    import autograd.numpy as anp

    made = generator_of(shape)
    noise = made.noise.copy()
    by_tables = np.random.default_rng(1).normal(size=(10, shape.rows))

    def tables(flat):
        """The network as its paper draws it: rows first, the block's outputs before its inputs."""
        place, features = 0, noise.T

        def take(*sizes):
            nonlocal place
            place += int(np.prod(sizes))
            return anp.reshape(flat[place - int(np.prod(sizes)) : place], sizes)

        for width in shape.widths:
            linear = features @ take(width, features.shape[1]).T + take(width)
            centred = linear - anp.mean(linear, axis=0)
            normal = centred / anp.sqrt(anp.mean(centred**2, axis=0) + 1e-5)
            outputs = normal * take(width) + take(width)
            features = anp.concatenate([anp.maximum(outputs, 0.0), features], axis=1)
        logits = features @ take(10, features.shape[1]).T + take(10)
        parts = []
        for start, end in ((0, 3), (3, 4), (4, 8), (8, 10)):
            shares = anp.exp(logits[:, start:end])
            parts.append(shares / anp.sum(shares, axis=1, keepdims=True))
        return anp.concatenate(parts, axis=1).T

    assert np.allclose(made.tables(), tables(made.parameters), rtol=1e-12, atol=1e-14)
    theirs = autograd.grad(lambda flat: anp.sum(tables(flat) * by_tables))(made.parameters.copy())
    assert relative(made.gradient(by_tables), theirs) < TRUE_TO


@pytest.mark.parametrize(("rows", "inner", "columns"), [(1, 1, 1), (3, 5, 2), (70, 33, 65), (200, 4000, 129)])
def test_tiled_products_are_those_of_numpy(rows, inner, columns):
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(rows, inner)), rng.normal(size=(columns, inner)).T
    np.testing.assert_allclose(matmul(left, right), left @ right, rtol=0, atol=1e-9)


def test_an_attribute_of_one_value_has_all_of_its_mass_there():
    made = Generator(DOMAIN, SHAPES["two blocks"])
    assert (made.tables()[3] == 1).all()
    assert made.tables().dtype == np.float32


def test_a_saved_generator_is_the_same_bit_for_bit(tmp_path):
    made = Generator(DOMAIN, SHAPES["two blocks"], seed=4)
    made.parameters *= 1.5
    made.save(tmp_path / "g")
    again = load_generator(tmp_path / "g", DOMAIN)
    assert again.shape == made.shape
    assert (again.tables() == made.tables()).all()
    with pytest.raises(FileExistsError):
        made.save(tmp_path / "g")


def test_a_generator_of_another_domain_is_refused(tmp_path):
    Generator(DOMAIN, SHAPES["linear"]).save(tmp_path / "g")
    other = Domain({"a": 3, "b": 1, "c": 4, "e": 2})  # the same sizes, another attribute
    with pytest.raises(ValueError, match=r"generator \(.*\) must be of the domain of the workload"):
        load_generator(tmp_path / "g", other)


@pytest.mark.parametrize("member", [b'"widths"', b"NUMPY", b'"sha256"'])
def test_a_damaged_file_is_refused(tmp_path, member):
    Generator(DOMAIN, SHAPES["linear"]).save(tmp_path / "g")
    content = bytearray((tmp_path / "g").read_bytes())
    content[content.rindex(member) + 1] ^= 1
    (tmp_path / "g").write_bytes(content)
    with pytest.raises(ValueError, match="must be a whole, unchanged generator file"):
        load_generator(tmp_path / "g", DOMAIN)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"rows": 0}, r"rows \(0\) must be"),
        ({"inputs": 0}, r"inputs \(0\) must be"),
        ({"widths": (4, 0)}, "widths must be from 1 to 16384"),
        ({"widths": (4, -1)}, "widths must be from 1 to 16384"),
    ],
)
def test_sizes_below_one_are_refused(options, reason):
    with pytest.raises(ValueError, match=reason):
        GeneratorShape(**{"rows": 4, "inputs": 2, "widths": (3,), **options})


def test_widths_that_are_no_list_are_refused():
    with pytest.raises(TypeError, match=r"widths \(3\) must be a tuple"):
        GeneratorShape(4, 2, 3)


def test_attributes_made_even_are_even_in_every_row_and_others_stay():
    made = generator_of(SHAPES["two blocks"])
    before = made.tables().copy()
    made.make_even(["c"])
    after = made.tables()
    np.testing.assert_allclose(after[4:8], 0.25)
    assert (after[:4] == before[:4]).all()
    assert (after[8:] == before[8:]).all()
