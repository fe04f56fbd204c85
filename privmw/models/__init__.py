"""What the loop improves: weighted rows, moved by multiplicative weights or by projection.

A model takes measurements and gives answers; it never receives a private value. Its interface is `Model` of
privmw/algorithms/loop.py. It ends as `(Support, weights)`: the rows may be its own. A new model takes four
files: the model here, its algorithm (privmw/algorithms), its name in privmw/__init__.py, and its --method
(METHODS of privmw/cli/inputs.py).
"""
