"""The C module of columns refuses arguments that would lead it outside of a buffer, and frees what it takes."""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np
import pytest

from bridges.spark.columns import _decode
from bridges.spark.columns._decode import decode, interleave

VALUE = (_decode.VALUE, _decode.BINARY, ((0xA0, -1),), True)
MESSAGE = b"\xa0\x02ab"


def places(*values: int) -> Any:
    return np.array(values, np.int64)


def read(program: Any, data: bytes = MESSAGE, start: int = 0, end: int = len(MESSAGE), row: int = 0) -> Any:
    return decode(data, places(start), places(end), places(row), program)


def test_a_value_is_found() -> None:
    mask, ((starts, ends, missing),) = read((VALUE,))
    assert (mask, missing) == (b"\x01", None)
    assert MESSAGE[int.from_bytes(starts, sys.byteorder) : int.from_bytes(ends, sys.byteorder)] == b"ab"


@pytest.mark.parametrize(("start", "end", "row"), [(0, 5, 0), (-1, 4, 0), (3, 2, 0), (0, 4, 1), (0, 4, -1)])
def test_messages_outside_of_the_buffer_are_refused(start: int, end: int, row: int) -> None:
    with pytest.raises(IndexError):
        read((VALUE,), start=start, end=end, row=row)


@pytest.mark.parametrize(
    "program",
    [
        (7,),
        ((),),
        ((99,),),
        ((_decode.EXPECT, 1),),
        ((_decode.VALUE, _decode.SIGNED, ((0x81, 16),), True),),
        ((_decode.VALUE, _decode.SIGNED, ((0x81, -1),), True),),
        ((_decode.VALUE, _decode.BINARY, ((0x98, 17),), True),),
        ((_decode.VALUE, _decode.BINARY, ((0x98, -2),), True),),
        ((_decode.VALUE, _decode.BINARY, (b"", 1), True),),
        ((_decode.VALUE, _decode.BINARY),),
    ],
)
def test_programs_that_make_no_sense_are_refused(program: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        read(program)


@pytest.mark.parametrize("end", range(len(MESSAGE)))
def test_a_message_that_ends_early_does_not_have_the_shape(end: int) -> None:
    mask, _ = read((VALUE,), end=end)
    assert mask == b"\x00"


def test_texts_are_side_by_side_and_null_where_a_column_has_none() -> None:
    column = (places(0, 1), places(2, 3), np.array([False, True]))
    valid, offsets, content, ascii_only = interleave(b"ab\xe9", 2, (column, None, (places(2, 0), places(3, 1), None)))
    assert valid is not None
    assert valid[0] & 0b111111 == 0b100101
    assert np.frombuffer(offsets, np.int32).tolist() == [0, 2, 2, 3, 3, 3, 4]
    assert (content, ascii_only) == (b"ab\xe9a", False)


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        (((places(0), places(5), None),), IndexError),
        (((places(2), places(1), None),), IndexError),
        (((places(-1), places(1), None),), IndexError),
        (((places(0, 0), places(1, 1), None),), ValueError),
        (((places(0), places(1), np.array([False, True])),), ValueError),
        ((7,), TypeError),
        (((places(0), places(1)),), TypeError),
    ],
)
def test_columns_outside_of_the_buffer_are_refused(columns: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        interleave(MESSAGE, 1, columns)
    with pytest.raises(ValueError, match="negative"):
        interleave(MESSAGE, -1, ())


def test_nothing_stays_referenced() -> None:
    def work() -> None:
        read((VALUE,))
        interleave(MESSAGE, 1, ((places(0), places(1), None),))
        with pytest.raises(ValueError, match="step"):
            read((VALUE, (99,)))
        with pytest.raises(IndexError):
            interleave(MESSAGE, 1, ((places(0), places(9), None),))

    for _ in range(20):
        work()
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(200):
        work()
    gc.collect()
    assert sys.getallocatedblocks() - before < 100
