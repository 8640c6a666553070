"""Composites: performatives, delivery states, termini and sections with named fields (section 1.4)."""

from __future__ import annotations

from librt.strings import BytesWriter

from penstock.texts import worded
from penstock.wire.amqp10 import values
from penstock.wire.amqp10.spec import (
    ANY,
    BY_SYMBOL,
    CODES_BY_SYMBOL,
    COMPOSITES,
    MESSAGE_ID,
    ROLE,
    SECTIONS,
    SYMBOL_KEYS,
    TRANSFER,
    CompositeSpec,
    FieldSpec,
)
from penstock.wire.amqp10.value_reader import ValueReader, check_depth
from penstock.wire.amqp10.value_walk import DESCRIBED, KINDS, NULL
from penstock.wire.amqp10.value_writer import unfit, write_plain, write_value
from penstock.wire.amqp10.values import INVALID_FIELD, NOT_IMPLEMENTED, Array, CodecError, Described, Symbol, Typed

_ID_KINDS = frozenset({values.ULONG, values.UUID, values.BINARY, values.STRING})


class Composite:
    """A decoded composite and its fields by name.

    Absent fields have their default, otherwise None; a field with multiple values is a list. `values` has the Python
    types.
    """

    __slots__ = ("spec", "fields")

    def __init__(self, spec: CompositeSpec, fields: dict[str, object]) -> None:
        self.spec = spec
        self.fields = fields

    @property
    def code(self) -> int:
        """Descriptor; one of the constants of `spec`."""
        return self.spec.code

    @property
    def name(self) -> str:
        """Name of the composite, such as "transfer"."""
        return self.spec.name

    def text(self, name: str) -> str:
        """Return a string or symbol; empty if it is absent."""
        value = self.fields[name]
        return value if isinstance(value, str) else ""

    def number(self, name: str, absent: int = -1) -> int:
        """Return an integer."""
        value = self.fields[name]
        return value if isinstance(value, int) else absent

    def flag(self, name: str) -> bool:
        """Return a boolean; False if it is absent."""
        return self.fields[name] is True

    def octets(self, name: str) -> bytes:
        """Return a binary; empty if it is absent."""
        value = self.fields[name]
        return value if isinstance(value, bytes) else b""

    def texts(self, name: str) -> list[str]:
        """Return the symbols of a field with multiple values."""
        value = self.fields[name]
        return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []

    def mapping(self, name: str) -> dict[object, object]:
        """Return a map; empty if it is absent."""
        value = self.fields[name]
        return value if isinstance(value, dict) else {}

    def inner(self, name: str) -> Composite | None:
        """Return a composite; None if it is absent, or is a described value of another specification."""
        value = self.fields[name]
        return value if isinstance(value, Composite) else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Composite) and self.spec is other.spec and self.fields == other.fields

    def __hash__(self) -> int:
        raise TypeError("a composite may change, and so has no hash")

    def __repr__(self) -> str:
        return f"<{self.spec.name} {self.fields!r}>"


# Decoding


def decode_composite(data: bytes, pos: int = 0, end: int = -1) -> tuple[Composite, int]:
    """Read the composite at `pos`; return it and the position after it. Raises CodecError.

    The condition distinguishes malformed bytes from a value that is not allowed in its field.
    """
    reader = ValueReader(data, pos, end)
    if reader.octet() != DESCRIBED:
        raise CodecError("a composite must begin with its descriptor")
    descriptor = reader.value(2)
    spec = spec_of(descriptor)
    if spec is None:
        raise CodecError(f"no composite has the descriptor {worded(descriptor)}", NOT_IMPLEMENTED)
    return _read_fields(reader, spec, 1), reader.pos


def decode_performative(data: bytes, pos: int = 0, end: int = -1) -> tuple[Composite, int]:
    """Read the performative of a frame; return it and the position of its payload, which only a transfer has.

    Raises CodecError.
    """
    if end < 0:
        end = len(data)
    composite, after = decode_composite(data, pos, end)
    if after != end and composite.code != TRANSFER:
        raise CodecError(f"{composite.name}: {end - after} bytes too many")
    return composite, after


def leading_fields(data: bytes, pos: int, end: int) -> dict[str, object]:
    """Return the fields of a malformed performative, by name, up to the first that cannot be read."""
    fields: dict[str, object] = {}
    reader = ValueReader(data, pos, end)
    try:
        reader.octet()
        spec = spec_of(reader.value(2))
        if spec is not None:
            _, count = reader.enter(reader.octet(), 2)
            for field in spec.fields[:count]:
                fields[field.name] = read_field(reader, field, 3)
    except CodecError:
        pass
    return fields


def spec_of(descriptor: object) -> CompositeSpec | None:
    """Return the composite that a descriptor names."""
    if isinstance(descriptor, Symbol):
        return BY_SYMBOL.get(descriptor)
    if isinstance(descriptor, Typed) and descriptor.kind == values.ULONG and isinstance(descriptor.value, int):
        return COMPOSITES.get(descriptor.value)
    return None


def descriptor_code(descriptor: object) -> int:
    """Return the code of a composite's or a section's descriptor; 0 if the specification lacks it."""
    if isinstance(descriptor, Symbol):
        return CODES_BY_SYMBOL.get(descriptor, 0)
    if isinstance(descriptor, Typed) and descriptor.kind == values.ULONG and isinstance(descriptor.value, int):
        return descriptor.value if descriptor.value in COMPOSITES or descriptor.value in SECTIONS else 0
    return 0


def _read_fields(reader: ValueReader, spec: CompositeSpec, depth: int) -> Composite:
    """Read the list of a composite, whose descriptor lies at nesting depth `depth`."""
    code = reader.octet()
    if KINDS[code] != values.LIST:
        raise CodecError(f"{spec.name}: its fields are no list")
    outer, count = reader.enter(code, depth + 1)
    if count > len(spec.fields):
        raise CodecError(f"{spec.name}: {count} fields, where it has {len(spec.fields)}")
    fields: dict[str, object] = {}
    for index, field in enumerate(spec.fields):
        try:
            fields[field.name] = read_field(reader, field, depth + 2) if index < count else _absent(field)
        except CodecError as error:
            raise CodecError(f"{spec.name}: {field.title()}: {error.reason}", error.condition) from None
    reader.leave(outer)
    return Composite(spec, fields)


def read_field(reader: ValueReader, field: FieldSpec, depth: int) -> object:
    """Read a field, which lies at nesting depth `depth`."""
    code = reader.octet()
    if code == NULL:
        return _absent(field)
    if field.multiple:
        return _read_multiple(reader, field, code, depth)
    if field.kind == ROLE:
        return _read_role(reader, field, code, depth)
    if field.kind == ANY or field.kind == MESSAGE_ID:
        reader.pos -= 1
        value = reader.value(depth)
        if field.kind == MESSAGE_ID and KINDS[code] not in _ID_KINDS:
            raise CodecError("it must be a ulong, uuid, binary or string")
        return value
    _check_kind(field.kind, code)
    plain = reader.plain(code, depth)
    if field.choices and isinstance(plain, str):
        plain = _choice(field, plain)
    _check(field, plain)
    return plain


def _choice(field: FieldSpec, value: str) -> str:
    """Return the choice that a value spells differently: RabbitMQ's .NET client writes LINK_DETACH."""
    if value in field.choices:
        return value
    spelled = value.lower().replace("_", "-")
    return spelled if spelled in field.choices else value


def _check_kind(kind: str, code: int) -> None:
    if KINDS[code] != kind:
        actual = "described value" if code == DESCRIBED else KINDS[code] or f"value of unknown type {code:#04x}"
        raise CodecError(f"it must be of type {kind}, not a {actual}")


def _absent(field: FieldSpec) -> object:
    if field.mandatory:
        raise CodecError("it is mandatory and absent", INVALID_FIELD)
    return [] if field.multiple else field.default


def _read_multiple(reader: ValueReader, field: FieldSpec, code: int, depth: int) -> object:
    """Read a field with multiple values: an array, or a single value."""
    if KINDS[code] != values.ARRAY:
        _check_kind(field.kind, code)
        return [reader.plain(code, depth)]
    value = reader.plain(code, depth)
    assert isinstance(value, Array)
    if value.values and (value.kind != field.kind or value.descriptors):
        raise CodecError(f"it must be an array of type {field.kind}, not {value.kind}")
    if field.mandatory and not value.values:
        raise CodecError("it is mandatory and absent", INVALID_FIELD)
    return value.values


def _read_role(reader: ValueReader, field: FieldSpec, code: int, depth: int) -> object:
    """Read a composite that provides the field's role, or a described value of another specification."""
    if code != DESCRIBED:
        raise CodecError(f"it must be a described value, not a {KINDS[code] or hex(code)}")
    check_depth(depth)
    descriptor = reader.value(depth + 1)
    spec = spec_of(descriptor)
    if spec is not None:
        if field.role not in spec.provides:
            raise CodecError(f"it must provide {field.role.replace('_', '-')}, not be of type {spec.name}")
        return _read_fields(reader, spec, depth)
    if field.role == "error":
        raise CodecError(f"it must be an error, not be described by {worded(descriptor)}")
    return Described(descriptor, reader.value(depth + 1))


def _check(field: FieldSpec, value: object) -> None:
    """Raise CodecError for a value outside the field's restricted type."""
    if field.largest >= 0:
        amount = value if isinstance(value, int) else len(value) if isinstance(value, bytes) else 0
        if amount > field.largest:
            unit = " bytes" if isinstance(value, bytes) else ""
            raise CodecError(f"{amount}{unit} is more than {field.largest}", INVALID_FIELD)
    if field.choices and value not in field.choices:
        raise CodecError(f"{worded(value)} is none of {', '.join(field.choices)}", INVALID_FIELD)
    if field.domain in SYMBOL_KEYS and isinstance(value, dict):
        for key in value:
            if not isinstance(key, Symbol):
                raise CodecError(f"the key {key!r:.60} is no symbol", INVALID_FIELD)


# Encoding


def composite(descriptor: int, /, **fields: object) -> Composite:
    """Return a composite; omitted fields are absent. Raises TypeError for an unknown field."""
    # Not `code`, a field of sasl-outcome: compiled, even a positional-only name takes up the keyword.
    spec = COMPOSITES[descriptor]
    unknown = set(fields) - {field.name for field in spec.fields}
    if unknown:
        raise TypeError(f"{spec.name} has no field {', '.join(sorted(unknown))}")
    return Composite(spec, {field.name: _given(field, fields.get(field.name)) for field in spec.fields})


def _given(field: FieldSpec, value: object) -> object:
    if value is not None:
        return value
    return [] if field.multiple else field.default


def encode(descriptor: int, /, **fields: object) -> bytes:
    """Return a composite as bytes; as `composite`. Raises CodecError for a value that does not fit its field."""
    return encode_composite(composite(descriptor, **fields))


def encode_composite(value: Composite) -> bytes:
    """Return a composite as bytes, without its absent last fields; a field with its default value is absent."""
    out = BytesWriter()
    _write_composite(out, value, 1)
    return out.getvalue()


def as_described(value: Composite) -> Described:
    """Return a composite as a described list, for maps such as `unsettled`."""
    reader = ValueReader(encode_composite(value))
    described = reader.value()
    assert isinstance(described, Described)
    return described


def as_composite(value: object) -> Composite | None:
    """Return a described list of a map as a composite; None if it is no composite. Raises CodecError."""
    if not isinstance(value, Described) or spec_of(value.descriptor) is None:
        return None
    out = BytesWriter()
    write_value(out, value)
    return decode_composite(out.getvalue())[0]


def _write_composite(out: BytesWriter, value: Composite, depth: int) -> None:
    check_depth(depth + 1)
    parts: list[bytes] = []
    count = 0
    for index, field in enumerate(value.spec.fields):
        try:
            part = _field_octets(field, value.fields[field.name], depth + 2)
        except CodecError as error:
            raise CodecError(f"{value.spec.name}: {field.title()}: {error.reason}", error.condition) from None
        if len(part) > 1 or part[0] != NULL:
            count = index + 1
        parts.append(part)
    out.append(DESCRIBED)
    write_plain(out, values.ULONG, value.spec.code)
    write_list(out, count, b"".join(parts[:count]))


def write_list(out: BytesWriter, count: int, content: bytes) -> None:
    """Append a list of encoded values."""
    if count == 0:
        out.append(0x45)
    elif len(content) <= 254 and count <= 255:
        out.append(0xC0)
        out.append(len(content) + 1)
        out.append(count)
        out.write(content)
    else:
        out.append(0xD0)
        out.write((len(content) + 4).to_bytes(4, "big") + count.to_bytes(4, "big"))
        out.write(content)


def _field_octets(field: FieldSpec, value: object, depth: int) -> bytes:
    out = BytesWriter()
    if value is None or (field.multiple and value == []):
        if field.mandatory:
            raise CodecError("it is mandatory and absent", INVALID_FIELD)
        out.append(NULL)
    elif field.default is not None and value == field.default and isinstance(value, type(field.default)):
        out.append(NULL)
    elif field.multiple:
        if not isinstance(value, list):
            raise unfit(value, f"{field.kind}, multiple")
        write_plain(out, values.ARRAY, Array(field.kind, value), depth)
    elif field.kind == ROLE:
        _write_role(out, field, value, depth)
    elif field.kind == ANY or field.kind == MESSAGE_ID:
        write_value(out, value, depth)
        if field.kind == MESSAGE_ID and KINDS[out[0]] not in _ID_KINDS:
            raise unfit(value, field.kind)
    else:
        write_plain(out, field.kind, value, depth)
        _check(field, value)
    return out.getvalue()


def _write_role(out: BytesWriter, field: FieldSpec, value: object, depth: int) -> None:
    if isinstance(value, Composite):
        if field.role not in value.spec.provides:
            raise unfit(value, field.role)
        _write_composite(out, value, depth)
    elif isinstance(value, Described) and spec_of(value.descriptor) is None and field.role != "error":
        write_value(out, value, depth)
    else:
        raise unfit(value, field.role)
