"""Constants and composites of AMQP 1.0, from the tables of the specification (OASIS Standard, 29 October 2012).

The table `COMPOSITES` defines the fields of every composite, and the codec reads only this table. Names are the
specification's with underscores for hyphens. In a signature, `!` marks a mandatory field and `*` a field with multiple
values; `=` begins a default. A type in brackets is a role that composites provide: the field takes any composite with
the role.
"""

from __future__ import annotations

from typing import Final

from penstock.wire.amqp10 import values
from penstock.wire.amqp10.values import Symbol

FRAME_AMQP: Final = 0
FRAME_SASL: Final = 1
FRAME_OVERHEAD: Final = 8
"""Bytes of a frame before its body, without an extended header (section 2.3.1)."""
FRAME_MIN_SIZE: Final = 512
"""Every peer must accept frames of this size, and no larger frames before `open` (section 2.7.1)."""
UINT_MAX: Final = (1 << 32) - 1
TAG_MAX: Final = 32
"""Most bytes of a delivery tag (section 2.8.7)."""

OPEN: Final = 0x10
BEGIN: Final = 0x11
ATTACH: Final = 0x12
FLOW: Final = 0x13
TRANSFER: Final = 0x14
DISPOSITION: Final = 0x15
DETACH: Final = 0x16
END: Final = 0x17
CLOSE: Final = 0x18
ERROR: Final = 0x1D
RECEIVED: Final = 0x23
ACCEPTED: Final = 0x24
REJECTED: Final = 0x25
RELEASED: Final = 0x26
MODIFIED: Final = 0x27
SOURCE: Final = 0x28
TARGET: Final = 0x29
DELETE_ON_CLOSE: Final = 0x2B
DELETE_ON_NO_LINKS: Final = 0x2C
DELETE_ON_NO_MESSAGES: Final = 0x2D
DELETE_ON_NO_LINKS_OR_MESSAGES: Final = 0x2E
COORDINATOR: Final = 0x30
DECLARE: Final = 0x31
DISCHARGE: Final = 0x32
DECLARED: Final = 0x33
TRANSACTIONAL_STATE: Final = 0x34
SASL_MECHANISMS: Final = 0x40
SASL_INIT: Final = 0x41
SASL_CHALLENGE: Final = 0x42
SASL_RESPONSE: Final = 0x43
SASL_OUTCOME: Final = 0x44
HEADER: Final = 0x70
DELIVERY_ANNOTATIONS: Final = 0x71
MESSAGE_ANNOTATIONS: Final = 0x72
PROPERTIES: Final = 0x73
APPLICATION_PROPERTIES: Final = 0x74
DATA: Final = 0x75
AMQP_SEQUENCE: Final = 0x76
AMQP_VALUE: Final = 0x77
FOOTER: Final = 0x78
"""Descriptors: all lie in the domain 0 of the specification."""

SECTIONS: Final[dict[int, str]] = {
    HEADER: "header",
    DELIVERY_ANNOTATIONS: "delivery-annotations",
    MESSAGE_ANNOTATIONS: "message-annotations",
    PROPERTIES: "properties",
    APPLICATION_PROPERTIES: "application-properties",
    DATA: "data",
    AMQP_SEQUENCE: "amqp-sequence",
    AMQP_VALUE: "amqp-value",
    FOOTER: "footer",
}
"""Names of message sections (section 3.2)."""

SECTION_TYPES: Final[dict[int, str]] = {
    HEADER: "list",
    DELIVERY_ANNOTATIONS: "map",
    MESSAGE_ANNOTATIONS: "map",
    PROPERTIES: "list",
    APPLICATION_PROPERTIES: "map",
    DATA: "binary",
    AMQP_SEQUENCE: "list",
    AMQP_VALUE: "*",
    FOOTER: "map",
}
"""Types of the values of sections."""

ANY: Final = "any"
"""Kind of a field that accepts any value."""
ROLE: Final = "role"
"""Kind of a field that accepts the composites that provide a role."""
MESSAGE_ID: Final = "message-id"
"""Kind of message-id and correlation-id: a ulong, uuid, binary or string, with its type."""


class Domain:
    """A restricted type: a primitive type with bounds."""

    __slots__ = ("kind", "largest", "choices")

    def __init__(self, kind: str, largest: int = -1, choices: tuple[str, ...] = ()) -> None:
        self.kind: Final = kind
        """Primitive type, or one of the kinds above."""
        self.largest: Final = largest
        """Largest number, or most bytes; -1 without a bound."""
        self.choices: Final = choices
        """The only allowed symbols; empty if all are allowed."""


DOMAINS: Final[dict[str, Domain]] = {
    "milliseconds": Domain(values.UINT),
    "seconds": Domain(values.UINT),
    "handle": Domain(values.UINT),
    "transfer_number": Domain(values.UINT),
    "delivery_number": Domain(values.UINT),
    "sequence_no": Domain(values.UINT),
    "message_format": Domain(values.UINT),
    "delivery_tag": Domain(values.BINARY, TAG_MAX),
    "sender_settle_mode": Domain(values.UBYTE, 2),
    "receiver_settle_mode": Domain(values.UBYTE, 1),
    "ietf_language_tag": Domain(values.SYMBOL),
    "fields": Domain(values.MAP),
    "filter_set": Domain(values.MAP),
    "terminus_durability": Domain(values.UINT, 2),
    "terminus_expiry_policy": Domain(
        values.SYMBOL, choices=("link-detach", "session-end", "connection-close", "never")
    ),
    "sasl_code": Domain(values.UBYTE, 4),
    "txn_id": Domain(values.BINARY),
    "address": Domain(values.STRING),
    "message_id": Domain(MESSAGE_ID),
    "any": Domain(ANY),
}
"""Restricted types by name; a primitive type is itself. The only map keys of fields and filter_set are symbols."""
SYMBOL_KEYS: Final = frozenset({"fields", "filter_set"})
"""Maps whose keys are symbols."""


class FieldSpec:
    """A field of a composite."""

    __slots__ = ("name", "domain", "kind", "role", "largest", "choices", "mandatory", "multiple", "default")

    def __init__(self, name: str, domain: str, mandatory: bool, multiple: bool, default: object) -> None:
        self.name: Final = name
        self.domain: Final = domain
        """Type in the specification's table; in brackets, a role."""
        resolved = Domain(ROLE) if domain.startswith("[") else DOMAINS.get(domain, Domain(domain))
        self.kind: Final = resolved.kind
        self.role: Final = domain.strip("[]") if domain.startswith("[") else ""
        self.largest: Final = resolved.largest
        self.choices: Final = resolved.choices
        self.mandatory: Final = mandatory
        self.multiple: Final = multiple
        self.default: Final = default

    def title(self) -> str:
        """Return the specification's name."""
        return self.name.replace("_", "-")


class CompositeSpec:
    """A composite: its descriptors, its fields in order, and the roles that it provides."""

    __slots__ = ("name", "code", "symbol", "fields", "provides")

    def __init__(self, name: str, code: int, fields: tuple[FieldSpec, ...], provides: tuple[str, ...]) -> None:
        self.name: Final = name
        self.code: Final = code
        self.symbol: Final = Symbol(f"amqp:{name}:list")
        self.fields: Final = fields
        self.provides: Final = provides


_SIGNATURES: Final = """\
# Transport (part 2, sections 2.7 and 2.8.14)
open (frame): string! container_id, string hostname, uint max_frame_size=4294967295, ushort channel_max=65535,
    milliseconds idle_time_out, ietf_language_tag* outgoing_locales, ietf_language_tag* incoming_locales,
    {capabilities}
begin (frame): ushort remote_channel, transfer_number! next_outgoing_id, uint! incoming_window, uint! outgoing_window,
    handle handle_max=4294967295, {capabilities}
attach (frame): string! name, handle! handle, boolean! role, sender_settle_mode snd_settle_mode=2,
    receiver_settle_mode rcv_settle_mode=0, [source] source, [target] target, map unsettled,
    boolean incomplete_unsettled=false, sequence_no initial_delivery_count, ulong max_message_size, {capabilities}
flow (frame): transfer_number next_incoming_id, uint! incoming_window, transfer_number! next_outgoing_id,
    uint! outgoing_window, handle handle, sequence_no delivery_count, uint link_credit, uint available,
    boolean drain=false, boolean echo=false, fields properties
transfer (frame): handle! handle, delivery_number delivery_id, delivery_tag delivery_tag,
    message_format message_format, boolean settled, boolean more=false, receiver_settle_mode rcv_settle_mode,
    [delivery_state] state, boolean resume=false, boolean aborted=false, boolean batchable=false
disposition (frame): boolean! role, delivery_number! first, delivery_number last, boolean settled=false,
    [delivery_state] state, boolean batchable=false
detach (frame): handle! handle, boolean closed=false, [error] error
end (frame): [error] error
close (frame): [error] error
error (error): symbol! condition, string description, fields info
# Messaging (part 3, sections 3.2, 3.4 and 3.5)
header (section): boolean durable=false, ubyte priority=4, milliseconds ttl, boolean first_acquirer=false,
    uint delivery_count=0
properties (section): message_id message_id, binary user_id, address to, string subject, address reply_to,
    message_id correlation_id, symbol content_type, symbol content_encoding, timestamp absolute_expiry_time,
    timestamp creation_time, string group_id, sequence_no group_sequence, string reply_to_group_id
received (delivery_state): uint! section_number, ulong! section_offset
accepted (delivery_state outcome):
rejected (delivery_state outcome): [error] error
released (delivery_state outcome):
modified (delivery_state outcome): boolean delivery_failed, boolean undeliverable_here, fields message_annotations
source (source): {terminus}, symbol distribution_mode, filter_set filter, [outcome] default_outcome, symbol* outcomes,
    symbol* capabilities
target (target): {terminus}, symbol* capabilities
delete-on-close (lifetime_policy):
delete-on-no-links (lifetime_policy):
delete-on-no-messages (lifetime_policy):
delete-on-no-links-or-messages (lifetime_policy):
# Transactions (part 4, section 4.5)
coordinator (target): symbol* capabilities
declare: any global_id
discharge: txn_id! txn_id, boolean fail
declared (delivery_state outcome): txn_id! txn_id
transactional-state (delivery_state): txn_id! txn_id, [outcome] outcome
# Security (part 5, section 5.3.3)
sasl-mechanisms (sasl_frame): symbol*! sasl_server_mechanisms
sasl-init (sasl_frame): symbol! mechanism, binary initial_response, string hostname
sasl-challenge (sasl_frame): binary! challenge
sasl-response (sasl_frame): binary! response
sasl-outcome (sasl_frame): sasl_code! code, binary additional_data
""".format(
    terminus="address address, terminus_durability durable=0, terminus_expiry_policy expiry_policy=session-end, "
    "seconds timeout=0, boolean dynamic=false, fields dynamic_node_properties",
    capabilities="symbol* offered_capabilities, symbol* desired_capabilities, fields properties",
)
"""A composite a line: the roles that it provides, and its fields; an indented line continues the line above."""


def _default(text: str) -> object:
    if text == "":
        return None
    if text == "true" or text == "false":
        return text == "true"
    return int(text) if text.isdigit() else text


def _field(signature: str) -> FieldSpec:
    domain, name = signature.split()
    name, _, default = name.partition("=")
    return FieldSpec(name, domain.rstrip("*!"), domain.endswith("!"), "*" in domain, _default(default))


def _spec(line: str) -> CompositeSpec:
    head, _, signature = line.partition(":")
    name, _, provides = head.rstrip(")").partition(" (")
    code: int = globals()[name.upper().replace("-", "_")]
    fields = [_field(part) for part in signature.split(",") if part.strip()]
    return CompositeSpec(name, code, tuple(fields), tuple(provides.split()))


COMPOSITES: Final[dict[int, CompositeSpec]] = {
    spec.code: spec
    for spec in [_spec(line) for line in _SIGNATURES.replace("\n    ", " ").splitlines() if line[0] != "#"]
}
"""Every composite that the codec knows, by descriptor."""
BY_SYMBOL: Final[dict[Symbol, CompositeSpec]] = {spec.symbol: spec for spec in COMPOSITES.values()}
"""The same composites by symbolic descriptor."""
CODES_BY_SYMBOL: Final[dict[Symbol, int]] = {
    **{spec.symbol: spec.code for spec in COMPOSITES.values()},
    **{Symbol(f"amqp:{name}:{SECTION_TYPES[code]}"): code for code, name in SECTIONS.items()},
}
"""Descriptors of composites and sections by symbolic descriptor."""
