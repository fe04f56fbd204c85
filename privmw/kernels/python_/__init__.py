"""Kernels in plain Python: the exact draws, and the Newton iteration that numba_ and numpy_ share."""
