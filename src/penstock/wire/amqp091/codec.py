"""Codec of AMQP 0-9-1 frames, methods and field tables.

All functions here are on the cold path: declarations, subscriptions, errors. The modules that handle many publishes,
deliveries and acknowledgements read and write those frames in place.
"""

from __future__ import annotations

from typing import Final

from penstock.wire.amqp091.fields import (
    CodecError,
    FieldReader,
    write_longstr,
    write_shortstr,
    write_table,
    write_unsigned,
)
from penstock.wire.amqp091.spec import FRAME_METHOD, METHODS, MethodSpec, ReplyCode

__all__ = [
    "CodecError",
    "Method",
    "decode_method",
    "decode_table",
    "encode_method",
    "encode_table",
    "frame",
    "method_frame",
    "short_text",
]

_ENDMARK: Final = b"\xce"


class Method:
    """A decoded method and its arguments by field name.

    In `args` a shortstr is `str`, a longstr `bytes`, a table `dict`, a bit `bool`, and every integer `int`.
    """

    __slots__ = ("args", "spec")

    def __init__(self, spec: MethodSpec, args: dict[str, object]) -> None:
        self.spec: Final = spec
        self.args: Final = args

    @property
    def id(self) -> int:
        """Class << 16 | method; equals one of the constants of `spec`."""
        return self.spec.id

    @property
    def name(self) -> str:
        """Name of the method, such as "queue.declare"."""
        return self.spec.name

    def __repr__(self) -> str:
        return f"<{self.spec.name} {self.args!r}>"


def decode_method(payload: bytes) -> Method:
    """Read the payload of a method frame; raises `CodecError` unless it is exactly one well-formed method."""
    reader = FieldReader(payload)
    method_id = reader.long()
    spec = METHODS.get(method_id)
    if spec is None:
        raise CodecError(
            f"class {method_id >> 16} has no method {method_id & 0xFFFF} that is known here", ReplyCode.NOT_IMPLEMENTED
        )
    try:
        args = _read_fields(reader, spec)
    except CodecError as error:
        raise CodecError(f"{spec.name}: {error.reason}", error.code) from None
    if reader.remaining():
        raise CodecError(f"{spec.name} has {reader.remaining()} bytes too many")
    return Method(spec, args)


def _read_fields(reader: FieldReader, spec: MethodSpec) -> dict[str, object]:
    args: dict[str, object] = {}
    bits = 0
    bits_left = 0  # of the byte that consecutive bits share, the lowest first
    for name, kind in spec.fields:
        if kind == "bit":
            if bits_left == 0:
                bits = reader.octet()
                bits_left = 8
            args[name] = bits & 1 == 1
            bits >>= 1
            bits_left -= 1
        else:
            bits_left = 0
            args[name] = _read_field(reader, kind)
    return args


def _read_field(reader: FieldReader, kind: str) -> object:
    if kind == "shortstr":
        return reader.shortstr()
    if kind == "short":
        return reader.short()
    if kind == "table":
        return reader.table()
    if kind == "longlong":
        return reader.longlong()
    if kind == "long":
        return reader.long()
    if kind == "octet":
        return reader.octet()
    return reader.longstr()


def encode_method(id_: int, /, **args: object) -> bytes:
    """The payload of a method frame; omitted fields are zero, empty or false.

    Raises `CodecError` for a value that does not fit its field, `TypeError` for an unknown field.
    """
    # Not `method_id`, a field of the close methods: compiled, even a positional-only name takes up the keyword.
    spec = METHODS.get(id_)
    if spec is None:
        raise CodecError(f"no method has the id {id_}", ReplyCode.INTERNAL_ERROR)
    unknown = set(args) - {name for name, _ in spec.fields}
    if unknown:
        raise TypeError(f"{spec.name} has no field {', '.join(sorted(unknown))}")
    out = bytearray(id_.to_bytes(4, "big"))
    bits: list[bool] = []
    for name, kind in spec.fields:
        if kind == "bit":
            bits.append(bool(args.get(name)))
        else:
            _write_bits(out, bits)
            _write_field(out, kind, args.get(name))
    _write_bits(out, bits)
    return bytes(out)


def _write_bits(out: bytearray, bits: list[bool]) -> None:
    """Append and clear consecutive bits: eight to a byte, the lowest first."""
    for start in range(0, len(bits), 8):
        octet = 0
        for position, bit in enumerate(bits[start : start + 8]):
            if bit:
                octet |= 1 << position
        out.append(octet)
    bits.clear()


def _write_field(out: bytearray, kind: str, value: object) -> None:
    if kind == "shortstr":
        write_shortstr(out, "" if value is None else value)
    elif kind == "short":
        write_unsigned(out, 0 if value is None else value, 2)
    elif kind == "table":
        write_table(out, {} if value is None else value)
    elif kind == "longlong":
        write_unsigned(out, 0 if value is None else value, 8)
    elif kind == "long":
        write_unsigned(out, 0 if value is None else value, 4)
    elif kind == "octet":
        write_unsigned(out, 0 if value is None else value, 1)
    else:
        write_longstr(out, b"" if value is None else value)


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """A whole frame: kind, channel, size, payload, end mark (section 4.2.3)."""
    out = bytearray()
    write_unsigned(out, kind, 1)
    write_unsigned(out, channel, 2)
    write_unsigned(out, len(payload), 4)
    return b"".join((out, payload, _ENDMARK))


def method_frame(channel: int, id_: int, /, **args: object) -> bytes:
    """A whole method frame; as `encode_method`."""
    return frame(FRAME_METHOD, channel, encode_method(id_, **args))


def decode_table(data: bytes, pos: int) -> tuple[dict[str, object], int]:
    """Read the field table that starts at `pos`; return the table and the position after it. Raises `CodecError`."""
    reader = FieldReader(data, pos)
    table = reader.table()
    return table, reader.pos


def encode_table(table: dict[str, object]) -> bytes:
    """A field table with its size before it; `field_writer.write_value` lists the types. Raises `CodecError`."""
    out = bytearray()
    write_table(out, table)
    return bytes(out)


def short_text(text: str) -> str:
    """The part of `text` that fits a short string (255 bytes of UTF-8); for reply texts, which may be truncated."""
    octets = text.encode(errors="replace")
    return text if len(octets) <= 255 and octets.isascii() else octets[:255].decode(errors="ignore")
