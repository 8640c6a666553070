"""Everything that AMQP 0-9-1 can say, as Hypothesis strategies; `octets` says nothing in particular."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from penstock.wire.amqp091.spec import METHODS, MethodSpec

octets = st.binary(max_size=80)
texts = st.text(max_size=60)
"""At most 240 octets of UTF-8, so that each fits a short string; lone surrogates are no text."""

moments = st.integers(0, 2**32 - 1).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))
"""Later ones pamqp takes for milliseconds."""
decimals = st.builds(
    lambda unscaled, places: Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -places)),
    st.integers(-(2**31) + 1, 2**31 - 1),
    st.integers(0, 255),
)
scalars = st.one_of(
    texts,
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.binary(max_size=40),
    st.none(),
    moments,
    decimals,
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
tables = st.dictionaries(texts, values, max_size=6)

FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "octet": st.integers(0, 255),
    "short": st.integers(0, 2**16 - 1),
    "long": st.integers(0, 2**32 - 1),
    "longlong": st.integers(0, 2**64 - 1),
    "shortstr": texts,
    "longstr": octets,
    "bit": st.booleans(),
    "table": tables,
}


def arguments(spec: MethodSpec) -> st.SearchStrategy[dict[str, object]]:
    """Arguments for every field of one method."""
    return st.fixed_dictionaries({name: FIELDS[kind] for name, kind in spec.fields})


@st.composite
def methods(draw: st.DrawFn) -> tuple[int, dict[str, object]]:
    """Any method with any arguments."""
    spec = draw(st.sampled_from(list(METHODS.values())))
    return spec.id, draw(arguments(spec))


PROPERTIES: dict[str, st.SearchStrategy[Any]] = {
    "content_type": texts,
    "content_encoding": texts,
    "headers": tables,
    "delivery_mode": FIELDS["octet"],
    "priority": FIELDS["octet"],
    "correlation_id": texts,
    "reply_to": texts,
    "expiration": texts,
    "message_id": texts,
    "timestamp": FIELDS["longlong"],
    "type": texts,
    "user_id": texts,
    "app_id": texts,
    "cluster_id": texts,
}
properties = st.fixed_dictionaries({}, optional=PROPERTIES)
