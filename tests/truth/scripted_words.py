"""Generators whose words a test wrote down, and the exact law of a draw by trying every word."""

from __future__ import annotations

import ctypes
import threading
from collections import defaultdict
from fractions import Fraction


class ScriptEndedError(Exception):
    """The script ended before the draw did."""


class ScriptedWords:
    """Words for the Python twin."""

    def __init__(self, words):
        self.words, self.used, self.lock = words, 0, threading.RLock()

    def next_word(self):
        if self.used == len(self.words):
            raise ScriptEndedError
        self.used += 1
        return self.words[self.used - 1]


class ScriptedBitGenerator(ScriptedWords):
    """The same behind numpy's C protocol, for the extension. A script that ends goes on with zeros."""

    def __init__(self, words):
        super().__init__(words)
        word = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)

        class Interface(ctypes.Structure):
            _fields_ = [("state", ctypes.c_void_p), ("next_uint64", word), ("rest", ctypes.c_void_p * 3)]

        self.interface = Interface(None, word(self.next_or_zero), (None, None, None))
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.name = b"BitGenerator"
        self.capsule = new(ctypes.addressof(self.interface), self.name, None)

    def next_or_zero(self, _):
        self.used += 1
        return self.words[self.used - 1] if self.used <= len(self.words) else 0


def law_by_words(draw, word_bits, depth):
    """`draw(next_word)` on every script of up to `depth` words: the mass of each outcome, and the rest."""
    law, still_open = defaultdict(Fraction), Fraction(0)
    scripts = [()]
    while scripts:
        script = scripts.pop()
        try:
            law[draw(ScriptedWords(script).next_word)] += Fraction(1, 1 << word_bits * len(script))
        except ScriptEndedError:
            if len(script) == depth:
                still_open += Fraction(1, 1 << word_bits * depth)
            else:
                scripts.extend((*script, word) for word in range(1 << word_bits))
    return dict(law), still_open


class RefusedError(Exception):
    """A rejection sampler came to its second proposal."""


class Branches:
    """Every path through a draw whose random steps ask `choose(weights)`, with its exact probability."""

    def laws(self, draw):
        law = defaultdict(Fraction)
        pending = [[]]
        while pending:
            self.script, self.taken, self.weight = pending.pop(), 0, Fraction(1)
            self.pending = pending
            try:
                outcome = draw()
            except RefusedError:
                outcome = None
            law[outcome] += self.weight
        return dict(law)

    def choose(self, weights):
        weights = list(weights)
        assert sum(weights) == 1
        if self.taken == len(self.script):
            possible = [i for i, weight in enumerate(weights) if weight > 0]
            self.pending.extend([*self.script, i] for i in possible[1:])
            self.script.append(possible[0])
        choice = self.script[self.taken]
        self.taken += 1
        self.weight *= weights[choice]
        return choice
