"""The fields of a protobuf message, such as a SentencePiece model (protobuf.dev, "Encoding")."""

from collections.abc import Iterator

SIZES = {1: 8, 2: 0, 5: 4}  # bytes of a value by wire type; 0: a varint before it has the size


def fields(message: int | bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yields (number, value) of each field of a protobuf message.

    Parsed by hand, because sentencepiece_model_pb2 refuses any protobuf library older than the one
    that generated it, without requiring that one. ValueError if this is not a message.
    """
    at = 0  # index of the next byte

    def varint() -> int:
        nonlocal at
        value, shift = message[at] & 0x7F, 7
        # Seven bits per byte, lowest first; the last byte has no eighth bit. AC 02: 0x2C + 2 * 128.
        while message[at] >= 0x80:
            at += 1
            value |= (message[at] & 0x7F) << shift
            shift += 7
        at += 1
        return value

    if not isinstance(message, bytes):
        raise ValueError("found a number, expected a message")
    while at < len(message):
        number, wire_type = divmod(varint(), 8)  # the tag is number * 8 + wire type
        if wire_type == 0:
            yield number, varint()
            continue
        if wire_type not in SIZES:
            raise ValueError(f"field {number} is a group, which SentencePiece does not use")
        # Wire type 2 has its length first: 0A 03 61 62 63 is field 1, three bytes, b"abc".
        size = SIZES[wire_type] or varint()
        yield number, message[at : at + size]
        at += size
