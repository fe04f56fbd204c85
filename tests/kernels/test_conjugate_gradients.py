"""Conjugate gradients: what they solve, in place, and where they end."""

import numpy as np
import pytest

from privmw.kernels.conjugate_gradients import conjugate_gradients


def system(size, seed=1):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((size, size))
    return root @ root.T + 0.1 * np.eye(size), rng.standard_normal(size)


def solve(matrix, right, start=None, **options):
    """The solution, the residual and the products taken."""
    solution = np.zeros(len(right)) if start is None else start
    residual, products = right.copy(), []

    def product(direction):
        products.append(direction.copy())
        return matrix @ direction

    options = {"enough": 1e-10, "most_steps": 500, "dot": np.dot, **options}
    assert conjugate_gradients(product, residual, solution, 1 / np.diag(matrix), **options) is None
    return solution, residual, products


@pytest.mark.parametrize("size", [1, 2, 5, 40])
def test_a_system_is_solved_and_the_residual_is_what_is_left(size):
    matrix, right = system(size)
    solution, residual, _ = solve(matrix, right)
    np.testing.assert_allclose(solution, np.linalg.solve(matrix, right), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(residual, right - matrix @ solution, atol=1e-8)


def test_what_is_solved_is_added_in_place():
    matrix, right = system(6)
    start = np.arange(6.0)
    solution, *_ = solve(matrix, right, start)
    assert solution is start
    np.testing.assert_allclose(start - np.arange(6.0), np.linalg.solve(matrix, right), rtol=1e-6)


def test_it_ends_at_the_accuracy_after_the_most_steps_or_when_it_is_enough():
    matrix, right = system(40)
    rough, exact = (len(solve(matrix, right, enough=accuracy)[2]) for accuracy in (0.1, 1e-10))
    assert 0 < rough < exact
    assert len(solve(matrix, right, most_steps=3)[2]) == 3
    assert len(solve(matrix, right, enough=lambda residual: True)[2]) == 1


def test_nothing_is_done_without_a_residual_and_nothing_along_a_flat_direction():
    assert solve(system(4)[0], np.zeros(4))[2] == []
    rank_one = np.outer([1.0, 1.0], [1.0, 1.0])
    solution, residual, products = solve(rank_one, np.array([1.0, -1.0]))
    assert len(products) == 1
    assert not solution.any()
    assert residual.tolist() == [1, -1]
