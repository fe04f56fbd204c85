"""The kernels in numpy alone: slow and short. The compiled ones return the same bits.

The modules of privmw/kernels check arguments. `threads` is accepted and not used.
"""
