"""What the loop improves: weighted rows, moved by multiplicative weights or by projection.

A model takes measurements and gives answers; it never receives a private value. Its interface is `Model` of
privmw/algorithms/loop.py. It ends as `(Support, weights)`: the rows may be its own. CONTRIBUTING.md says
which files a new model and its algorithm take.
"""
