"""The kernels as plain loops compiled by numba: for machines with numba and no compiler.

They return the same bits as the compiled ones: sums are integers, and floats are only multiplied and rounded,
without fastmath. The modules of privmw/kernels check arguments. `threads` is accepted and not used. Where a
loop would not be faster, a kernel is missing here and that of `numpy_` runs.
"""
