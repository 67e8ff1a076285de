"""The encoding of protobuf messages, byte by byte as its documentation has it."""

import pytest

from transformer.data import protobuf


def test_fields_of_every_wire_type():
    message = (
        b"\x08\x96\x01"  # field 1, a varint: 150, the documentation's example
        b"\x12\x07testing"  # field 2, 7 bytes
        b"\x1d\x01\x02\x03\x04"  # field 3, 4 bytes
        b"\x21\x01\x02\x03\x04\x05\x06\x07\x08"  # field 4, 8 bytes
        b"\x80\x01\x00"  # field 16, whose tag takes two bytes
    )
    assert list(protobuf.fields(message)) == [
        *((1, 150), (2, b"testing"), (3, b"\x01\x02\x03\x04")),
        *((4, bytes(range(1, 9))), (16, 0)),
    ]
    assert list(protobuf.fields(b"")) == []


@pytest.mark.parametrize("message", [5, b"\x0b", b"\x08"])
def test_what_is_no_message_is_an_error(message):
    """A number, a group, a varint without its last byte."""
    with pytest.raises((ValueError, IndexError)):
        list(protobuf.fields(message))
