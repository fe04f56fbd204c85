"""Other libraries and their shapes, one file each: this room knows what it needs; no other room knows it.

A file here imports its library when it is itself imported, and `import privmw` imports none of them; only
synthesizer.py, which has the shape of scikit-learn and needs nothing of it, comes with privmw itself. What
they take and give is public or released: private records enter privmw through a table, and only a curator
sees their counts.
"""
