import mmap

import numpy as np
import pytest

from privmw.kernels.arrays import freeze, is_frozen


def test_a_frozen_array_cannot_be_thawed():
    frozen = freeze(np.arange(3))
    assert is_frozen(frozen)
    assert is_frozen(frozen[1:])
    with pytest.raises(ValueError, match="WRITEABLE"):
        frozen.flags.writeable = True
    with pytest.raises(ValueError, match="read-only"):
        frozen[0] = 7


def test_a_read_only_view_of_what_can_be_written_is_not_frozen():
    mine = np.arange(3)
    view = mine[:]
    view.flags.writeable = False
    assert not is_frozen(view)
    assert not is_frozen(mine)
    assert is_frozen(np.frombuffer(b"abc", np.uint8))
    buffer = np.frombuffer(bytearray(b"abc"), np.uint8)
    buffer.flags.writeable = False
    assert not is_frozen(buffer)
    with mmap.mmap(-1, 10) as memory:
        mapped = np.frombuffer(memory, np.uint8)
        mapped.flags.writeable = False
        assert not is_frozen(mapped)
        del mapped
