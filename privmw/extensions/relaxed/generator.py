"""A network that generates a mixture of products: fixed noise in, one distribution for each attribute out.

The generator of "Iterative methods for private synthetic data" (Liu, Vietri and Wu 2021, section 4). Each of
its rows is a product of distributions. A row's noise is drawn once; blocks (linear, batch norm over the rows,
ReLU) each concatenate their outputs to their inputs, a linear layer makes logits, and a softmax per attribute
makes distributions. Batch norm always uses the mean and variance of these rows, so the rows are one model.
Gradients are written by hand.

Arrays are features x rows: the inputs of every layer are the last features of one array, so that
concatenation needs no copy. Public and released values only.

Matrix products are stacks of small ones, which OpenBLAS computes on one thread each: results have the same
bits for any number of its threads, and it starts none.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privmw.data.domain import Domain
from privmw.data.strict_json import parse_json
from privmw.extensions.relaxed.model import Floats, softmax, softmax_gradient
from privmw.kernels.checks import check_integer
from privmw.models.products import SINGLE_THREAD_PRODUCT
from privmw.random import sampling_stream
from privmw.release.file import explained, read_archive, read_array, write_archive, write_array
from privmw.secrecy import expect

TILE_COLUMNS = 64
VARIANCE_FLOOR = 1e-5  # added to a variance by batch norm
MOST_GENERATED_ROWS, MOST_FEATURES = 100_000, 16_384
FORM, VERSION = "privmw generator", 1


@dataclass(frozen=True)
class GeneratorShape:
    """The sizes of a generator.

    rows: products of the mixture. inputs: numbers of fixed noise per row. widths: outputs of each block;
    empty for a linear layer alone.

    >>> GeneratorShape(rows=8, inputs=4, widths=(6,)).features
    (4, 10)
    """

    rows: int
    inputs: int
    widths: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", check_integer("rows", self.rows, 1, MOST_GENERATED_ROWS))
        object.__setattr__(self, "inputs", check_integer("inputs", self.inputs, 1, MOST_FEATURES))
        expect("widths", self.widths, list | tuple, "a tuple of integers")
        widths = tuple(check_integer("widths", width, 1, MOST_FEATURES, quote=False) for width in self.widths)
        object.__setattr__(self, "widths", widths)

    @property
    def features(self) -> tuple[int, ...]:
        """The number of input features of each block, and of the final linear layer."""
        return tuple(self.inputs + sum(self.widths[:block]) for block in range(len(self.widths) + 1))


class Generator:
    """A mixture of products computed by a network; rows have equal weights.

    >>> from privmw.data.domain import Domain
    >>> generator = Generator(Domain({"age": 3, "sex": 2}), GeneratorShape(rows=8, inputs=4, widths=(6,)))
    >>> tables = generator.tables()
    >>> tables.shape, bool(np.allclose(tables[:3].sum(0), 1))
    ((5, 8), True)
    """

    def __init__(
        self,
        domain: Domain,
        shape: GeneratorShape,
        *,
        seed: int = 0,
        dtype: type[np.floating[Any]] = np.float32,
    ) -> None:
        self.domain, self.shape = domain, shape
        self.columns: tuple[str, ...] = ()  # of the public records that trained it
        self.records = 0  # public records that trained it
        self._starts = np.concatenate([[0], np.cumsum(domain.sizes)])
        values, rows, inputs = int(self._starts[-1]), shape.rows, shape.features
        stream = sampling_stream(seed)
        # The outputs of the last block first, the noise last.
        self._features = np.empty((inputs[-1], rows), dtype)
        self.noise[:] = stream.standard_normal((shape.inputs, rows))
        sizes = list(zip((*shape.widths, values), inputs, strict=True))
        last = len(shape.widths)
        count = sum(out * (into + (1 if layer == last else 3)) for layer, (out, into) in enumerate(sizes))
        self.parameters: Floats = np.empty(count, dtype)  # changed in place by training
        self._layers = self._views(self.parameters)
        for layer, (weights, bias, *scales) in enumerate(self._layers):
            bound = 1 / math.sqrt(sizes[layer][1])
            weights[:] = stream.uniform(-bound, bound, weights.shape)
            bias[:] = stream.uniform(-bound, bound, bias.shape)
            if scales:
                scales[0][:], scales[1][:] = 1.0, 0.0
        self._normal: list[Floats] = []  # of each block: batch norm before scale and shift
        self._deviation: list[Floats] = []
        self._tables = np.empty((values, rows), dtype)

    def _views(self, flat: Floats) -> list[list[Floats]]:
        """The weights and bias of each layer, and for blocks the scale and shift of batch norm."""
        layers, place = [], 0

        def take(*shape: int) -> Floats:
            nonlocal place
            size = math.prod(shape)
            place += size
            return flat[place - size : place].reshape(shape)

        outputs = (*self.shape.widths, int(self._starts[-1]))
        for layer, (out, into) in enumerate(zip(outputs, self.shape.features, strict=True)):
            layers.append([take(out, into), take(out, 1)])
            if layer < len(self.shape.widths):
                layers[-1] += [take(out, 1), take(out, 1)]
        return layers

    def _inputs(self, layer: int) -> Floats:
        return self._features[len(self._features) - self.shape.features[layer] :]

    @property
    def noise(self) -> Floats:
        """The fixed noise, inputs x rows."""
        return self._inputs(0)

    def tables(self) -> Floats:
        """The distributions of all attributes, stacked: values x rows."""
        self._normal, self._deviation = [], []
        for block, width in enumerate(self.shape.widths):
            weights, bias, scale, shift = self._layers[block]
            linear = matmul(weights, self._inputs(block))
            linear += bias
            linear -= linear.mean(1, keepdims=True)
            variance = np.einsum("ij,ij->i", linear, linear)[:, None] / self.shape.rows
            deviation = np.sqrt(variance + self.parameters.dtype.type(VARIANCE_FLOOR))
            linear /= deviation
            self._normal.append(linear)
            self._deviation.append(deviation)
            outputs = self._inputs(block + 1)[:width]
            np.multiply(linear, scale, out=outputs)
            outputs += shift
            np.maximum(outputs, 0.0, out=outputs)
        weights, bias = self._layers[-1]
        logits = matmul(weights, self._features)
        logits += bias
        self._tables = softmax(logits, self._starts)
        return self._tables

    def gradient(self, by_tables: Floats) -> Floats:
        """Backpropagate the gradient with respect to the last result of `tables` to the parameters."""
        gradient = np.empty_like(self.parameters)
        layers = self._views(gradient)
        by_linear = softmax_gradient(self._tables, by_tables, self._starts)
        by_features = self._add_linear(layers[-1], self._layers[-1][0], by_linear, self._features)
        for block in reversed(range(len(self.shape.widths))):
            width = self.shape.widths[block]
            weights, _, scale, _ = self._layers[block]
            normal = self._normal[block]
            by_outputs = by_features[:width] * (self._inputs(block + 1)[:width] > 0)
            by_scale = np.einsum("ij,ij->i", by_outputs, normal)[:, None]
            by_shift = by_outputs.sum(1, keepdims=True)
            layers[block][2][:], layers[block][3][:] = by_scale, by_shift
            # Of batch norm: (g - mean g - normal mean(g normal)) scale / deviation.
            by_outputs -= (normal * by_scale + by_shift) / self.shape.rows
            by_outputs *= scale / self._deviation[block]
            by_inputs = self._add_linear(layers[block], weights, by_outputs, self._inputs(block))
            by_inputs += by_features[width:]
            by_features = by_inputs
        return gradient

    def _add_linear(self, into: list[Floats], weights: Floats, by_linear: Floats, inputs: Floats) -> Floats:
        """Write the gradient of a linear layer; returns the gradient of its inputs."""
        into[0][:] = matmul(by_linear, inputs.T)
        into[1][:] = by_linear.sum(1, keepdims=True)
        return matmul(weights.T, by_linear)

    def make_even(self, names: Sequence[str]) -> None:
        """Make the distributions of some attributes uniform in every row."""
        weights, bias = self._layers[-1]
        for attribute in (self.domain.index(name) for name in names):
            values = slice(self._starts[attribute], self._starts[attribute + 1])
            weights[values], bias[values] = 0.0, 0.0

    def begin_at(self, logs: Floats, names: Sequence[str]) -> None:
        """Start the distributions of some attributes at these; logs: one per value, a column."""
        _, bias = self._layers[-1]
        for attribute in (self.domain.index(name) for name in names):
            values = slice(self._starts[attribute], self._starts[attribute + 1])
            bias[values] = logs[values]

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the network and its noise to a file that `load_generator` reads."""
        shape = self.shape
        about = {
            "domain": self.domain.fingerprint(),
            "rows": shape.rows,
            "inputs": shape.inputs,
            "widths": list(shape.widths),
            "columns": list(self.columns),
            "records": self.records,
        }
        members = [
            ("generator.json", json.dumps(about).encode()),
            ("noise.npy", write_array(self.noise.astype(np.float32).ravel())),
            ("parameters.npy", write_array(self.parameters.astype(np.float32))),
        ]
        write_archive(path, members, form=FORM, version=VERSION, overwrite=overwrite)


def load_generator(path: str | os.PathLike[str], domain: Domain) -> Generator:
    """Read a generator that `Generator.save` wrote; raises for another domain or a changed file."""
    members = read_archive(path, form=FORM, version=VERSION)
    with explained(path, FORM):
        about = parse_json(members["generator.json"].decode())
        shape = GeneratorShape(about["rows"], about["inputs"], tuple(about["widths"]))
        noise = read_array(members["noise.npy"], np.float32)
        parameters = read_array(members["parameters.npy"], np.float32)
        if not (np.isfinite(noise).all() and np.isfinite(parameters).all()):
            raise ValueError("numbers must be finite")
    if about["domain"] != domain.fingerprint():
        raise ValueError(f"generator ({os.fspath(path)}) must be of the domain of the workload")
    with explained(path, FORM):
        generator = Generator(domain, shape)
        generator.columns = tuple(domain.names[domain.index(name)] for name in about["columns"])
        generator.records = check_integer("records", about["records"], 0)
        if bool(generator.columns) != bool(generator.records):
            raise ValueError("columns must come with the number of public records")
        if len(noise) != shape.inputs * shape.rows or len(parameters) != len(generator.parameters):
            raise ValueError("arrays must have the lengths that rows, inputs and widths imply")
    generator.noise[:] = noise.reshape(shape.inputs, shape.rows)
    generator.parameters[:] = parameters
    return generator


def matmul(left: Floats, right: Floats) -> Floats:
    """The matrix product, computed as a stack of small ones.

    >>> left, right = np.arange(6.0).reshape(2, 3), np.arange(210.0).reshape(3, 70)
    >>> bool((matmul(left, right) == left @ right).all())
    True
    """
    (rows, inner), columns = left.shape, right.shape[1]
    wide = max(2, min(columns, TILE_COLUMNS, SINGLE_THREAD_PRODUCT // (2 * inner)))
    high = max(2, min(rows, SINGLE_THREAD_PRODUCT // (inner * wide)))
    tiled_left = _padded(left, high, 0).reshape(-1, 1, high, inner)
    tiled_right = _padded(right, wide, 1).reshape(inner, -1, wide).transpose(1, 0, 2)
    tiles = np.matmul(tiled_left, np.ascontiguousarray(tiled_right)[None])
    product = tiles.transpose(0, 2, 1, 3).reshape(tiles.shape[0] * high, -1)
    cut: Floats = product[:rows, :columns]
    return cut


def _padded(array: Floats, multiple: int, axis: int) -> Floats:
    """The array padded with zeros to a multiple of rows or columns."""
    padding = -array.shape[axis] % multiple
    if padding == 0:
        return array
    widths: Sequence[tuple[int, int]] = [(0, padding if axis == place else 0) for place in range(2)]
    return np.pad(array, widths)
