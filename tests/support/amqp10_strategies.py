"""Everything that AMQP 1.0 can say, as Hypothesis strategies."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from penstock.wire.amqp10 import spec, values
from penstock.wire.amqp10.composite import Composite, composite, encode
from penstock.wire.amqp10.spec import ANY, COMPOSITES, MESSAGE_ID, ROLE, CompositeSpec, FieldSpec
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import Array, Described, Symbol, Typed

texts = st.text(max_size=20)
names = st.text(st.characters(max_codepoint=127), max_size=20)
octets = st.binary(max_size=40)
uints = st.integers(0, 300) | st.integers(0, 2**32 - 1)
ulongs = st.integers(0, 300) | st.integers(0, 2**64 - 1)
longs = st.integers(-300, 300) | st.integers(-(2**63), 2**63 - 1)

PLAIN: dict[str, st.SearchStrategy[Any]] = {
    values.NULL: st.none(),
    values.BOOLEAN: st.booleans(),
    values.UBYTE: st.integers(0, 255),
    values.USHORT: st.integers(0, 2**16 - 1),
    values.UINT: uints,
    values.ULONG: ulongs,
    values.BYTE: st.integers(-128, 127),
    values.SHORT: st.integers(-(2**15), 2**15 - 1),
    values.INT: st.integers(-300, 300) | st.integers(-(2**31), 2**31 - 1),
    values.LONG: longs,
    values.FLOAT: st.floats(width=32, allow_nan=False),
    values.DOUBLE: st.floats(allow_nan=False),
    values.DECIMAL32: st.binary(min_size=4, max_size=4),
    values.DECIMAL64: st.binary(min_size=8, max_size=8),
    values.DECIMAL128: st.binary(min_size=16, max_size=16),
    values.CHAR: st.characters(exclude_categories=["Cs"]),
    values.TIMESTAMP: longs,
    values.UUID: st.binary(min_size=16, max_size=16),
    values.BINARY: octets,
    values.STRING: texts,
    values.SYMBOL: names,
}
"""Values of the scalar types as they are in composites and arrays."""

symbols = names.map(Symbol)
typed = st.one_of(
    *(strategy.map(lambda value, kind=kind: Typed(kind, value)) for kind, strategy in PLAIN.items()  # type: ignore[misc]
      if kind not in values.PLAIN and kind != values.SYMBOL)
)  # fmt: skip
scalars = st.one_of(st.none(), st.booleans(), longs, st.floats(allow_nan=False), octets, texts, symbols, typed)
keys = st.one_of(texts, symbols, ulongs.map(values.ulong), longs, octets)
descriptors = ulongs.map(values.ulong) | symbols


@st.composite
def arrays(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> Array:
    """An array of any type, also of lists, maps and arrays, and now and then described."""
    kind = draw(st.sampled_from([*PLAIN, values.LIST, values.MAP, values.ARRAY]))
    elements = {
        **PLAIN,
        values.LIST: st.lists(inner, max_size=3),
        values.MAP: st.dictionaries(keys, inner, max_size=3),
        values.ARRAY: texts.map(lambda text: Array(values.STRING, [text])),
    }
    found = draw(st.lists(elements[kind], max_size=4))
    return Array(kind, found, draw(st.sampled_from([(), (values.ulong(7),), (Symbol("a"), values.ulong(7))])))


anything = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(keys, inner, max_size=4),
        arrays(inner),
        st.builds(Described, descriptors, inner),
    ),
    max_leaves=12,
)
"""Any value."""
fields = st.dictionaries(symbols, anything, max_size=3)
annotations = st.dictionaries(symbols | ulongs.map(values.ulong), anything, max_size=4)
application_properties = st.dictionaries(texts, scalars, max_size=4)
foreign = st.builds(Described, st.sampled_from([Symbol("x:y:list"), values.ulong(0x1_0000_0010)]), anything)
"""Described values of another specification."""


def field(of: FieldSpec) -> st.SearchStrategy[Any]:
    """Values of a field, its absence not included."""
    if of.multiple:
        return st.lists(PLAIN[of.kind], min_size=1, max_size=3)
    if of.kind == ROLE:
        provided = [each for each in COMPOSITES.values() if of.role in each.provides]
        known = st.sampled_from(provided).flatmap(composites_of)
        return known if of.role == "error" else known | foreign
    if of.kind == ANY:
        return anything.filter(lambda value: value is not None)
    if of.kind == MESSAGE_ID:
        return st.one_of(texts, octets, ulongs.map(values.ulong), PLAIN["uuid"].map(lambda u: Typed("uuid", u)))
    if of.domain in spec.SYMBOL_KEYS:
        return fields
    if of.kind == values.MAP:
        return st.dictionaries(octets, anything, max_size=2)
    if of.choices:
        return st.sampled_from(of.choices)
    if of.kind == values.BINARY:
        return st.binary(max_size=of.largest if of.largest >= 0 else 40)
    return PLAIN[of.kind] if of.largest < 0 else st.integers(0, of.largest)


@st.composite
def arguments(draw: st.DrawFn, of: CompositeSpec) -> dict[str, Any]:
    """The mandatory fields of a composite, and some others."""
    return {each.name: draw(field(each)) for each in of.fields if each.mandatory or draw(st.booleans())}


def composites_of(of: CompositeSpec) -> st.SearchStrategy[Composite]:
    """Composites of one kind."""
    return arguments(of).map(lambda given: composite(of.code, **given))


composites = st.sampled_from(list(COMPOSITES.values())).flatmap(composites_of)
"""Any composite with any fields."""


def section(code: int, value: object) -> bytes:
    """Return a section of a message."""
    return encode_value(Described(values.ulong(code), value))


@st.composite
def messages(draw: st.DrawFn) -> dict[int, list[bytes]]:
    """The octets of each section of a message, in order."""
    found: dict[int, list[bytes]] = {}
    if draw(st.booleans()):
        found[spec.HEADER] = [encode(spec.HEADER, **draw(arguments(COMPOSITES[spec.HEADER])))]
    for code in (spec.DELIVERY_ANNOTATIONS, spec.MESSAGE_ANNOTATIONS):
        if draw(st.booleans()):
            found[code] = [section(code, draw(annotations))]
    if draw(st.booleans()):
        found[spec.PROPERTIES] = [encode(spec.PROPERTIES, **draw(arguments(COMPOSITES[spec.PROPERTIES])))]
    if draw(st.booleans()):
        found[spec.APPLICATION_PROPERTIES] = [section(spec.APPLICATION_PROPERTIES, draw(application_properties))]
    body: dict[int, st.SearchStrategy[list[Any]]] = {
        spec.DATA: st.lists(octets, min_size=1, max_size=3),
        spec.AMQP_SEQUENCE: st.lists(st.lists(anything, max_size=3), min_size=1, max_size=3),
        spec.AMQP_VALUE: st.lists(anything, min_size=1, max_size=1),
    }
    code = draw(st.sampled_from(list(body)))
    found[code] = [section(code, value) for value in draw(body[code])]
    if draw(st.booleans()):
        found[spec.FOOTER] = [section(spec.FOOTER, draw(annotations))]
    return found


def octets_of(message: dict[int, list[bytes]]) -> bytes:
    """Return a message as octets."""
    return b"".join(part for parts in message.values() for part in parts)
