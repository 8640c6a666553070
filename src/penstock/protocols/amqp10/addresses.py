"""Addresses of AMQP 1.0: RabbitMQ 4's, percent-encoded, and plain names as in Qpid and Artemis.

| address | of a target | of a source |
|---|---|---|
| `/queues/:queue` | the queue | the queue |
| `/exchanges/:exchange/:key` | the exchange, with this key | the same as a subscription, with capability `topic` |
| `/exchanges/:exchange` | the exchange; the subject of a message is its key | the same |
| null | the anonymous terminus: each message has its address in `to` | - |
| `/management` | the management node | the same |
| `name` | the exchange of that name, else the queue | the queue of that name, else the exchange |
| `exchange/key` | the same, else the exchange before the first `/` with the key behind it | the same |
| `queue://name`, `queue:name` | the queue | the queue |
| `topic://name`, `topic:name` | the exchange of that name, else `amq.topic` with this key | the same |

The last two rows are ActiveMQ's, percent-encoded as well. A queue or exchange whose name is the whole text precedes
`amq.topic`. In `amq.topic`, the last word `>` of a source is `#`. Options behind `?` and the names of ActiveMQ's
temporary nodes (`temp-queue://`) are refused.

`amqp://host/` or `amqps://host/` in front of an address is removed: uamqp sends it with each address. The capability
`queue` or `topic` decides where a plain name may be either. An unroutable message is released, as in RabbitMQ 4. A
topic accepts an unroutable message: in JMS a topic without subscribers is no error. A message whose `to` names nothing
is rejected.

Messages to receivers get the annotations x-exchange and x-routing-key, as in RabbitMQ 4. The annotations correspond to
the fields of `basic.deliver` in AMQP 0-9-1. Annotations of these names from a sender are replaced.

The queue that an attach names is created if the setting `auto-create` of its name says so (Artemis).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from penstock.connections.connection import Connection
from penstock.connections.topology import asker_of, declare_queue
from penstock.content.properties import is_name
from penstock.core.message import Envelope
from penstock.core.routing.exchange import EXCHANGE, QUEUE
from penstock.core.vhost import VirtualHost
from penstock.errors import InvalidField, NotFound
from penstock.protocols.amqp10.message_format import FIRST_OCTET
from penstock.settings.lengths import NAME_MAX
from penstock.wire.amqp10.neutral_addresses import EXCHANGES, QUEUES, percent_decoded
from penstock.wire.amqp10.sections import Sections, with_annotations
from penstock.wire.amqp10.spec import MESSAGE_ANNOTATIONS
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import Described, Symbol, ulong

MANAGEMENT: Final = "/management"
"""Address of the management node (RabbitMQ 4)."""
QUEUE_CAPABILITY: Final = "queue"
TOPIC_CAPABILITY: Final = "topic"
TEMPORARY: Final = "temporary-"
"""Capabilities of a terminus (AMQP JMS mapping 1.0, section 3.3); capabilities of dynamic nodes begin with
`TEMPORARY`."""
ADDRESS_MAX: Final = len(EXCHANGES) + 2 * 3 * NAME_MAX + 1
"""Most bytes of an address: two names, each byte percent-encoded."""
CACHED_MAX: Final = 256
"""Most addresses of `to` in a cache."""
_SCHEMES: Final = frozenset({"amqp", "amqps"})
_DEFAULT: Final = frozenset({"", "amq.default"})
"""Names of the default exchange, which no address may have (RabbitMQ 4)."""
_FOREIGN: Final = ("queue://", "topic://", "queue:", "topic:")
"""Beginnings of ActiveMQ's addresses, longer ones first."""
_TEMPORARY: Final = ("temp-queue:", "temp-topic:")
"""Beginnings of the addresses that ActiveMQ gives dynamic nodes."""
TOPICS: Final = "amq.topic"
"""Exchange of topics that have no exchange of their own name."""
_WITHOUT_SLASH: Final = (QUEUES[1:], EXCHANGES[1:])
"""Beginnings of plain names that are likely meant as addresses: Proton takes the slash of a URL for its separator."""
_FORMER: Final = {
    "/queue/": QUEUES,
    "/amq/queue/": QUEUES,
    "/exchange/": EXCHANGES,
    "/topic/": EXCHANGES + "amq.topic/",
}
"""Beginnings of RabbitMQ 3's addresses, and the present ones, for error messages."""


class AddressKind(IntEnum):
    """Forms of an address."""

    QUEUE = 0
    EXCHANGE = 1
    PLAIN = 2
    """A name without a leading `/`: an exchange or a queue."""
    ANONYMOUS = 3
    """Null, of a target: each message has its own."""
    MANAGEMENT = 4


class Unroutable(IntEnum):
    """Outcomes of a message that reaches no queue."""

    RELEASED = 0
    ACCEPTED = 1
    """The message is accepted and counted, because the topic has no subscription."""
    REJECTED = 2
    """amqp:not-found."""


class Node:
    """A node that an address may name: a queue, or an exchange with a routing key."""

    __slots__ = ("queue", "exchange", "key", "by_subject")

    def __init__(self, queue: str, exchange: str, key: str, by_subject: bool) -> None:
        self.queue: Final = queue
        """Name of the queue; empty for an exchange."""
        self.exchange: Final = exchange
        """Exchange to publish to, or to bind to; the default exchange ("") for a queue."""
        self.key: Final = key
        """Routing key: the queue's name for a queue; empty if `by_subject`."""
        self.by_subject: Final = by_subject
        """True if the subject of each message is its routing key; a subscription then has no key."""

    def place(self) -> tuple[str, str]:
        """Return kind and name of the queue or exchange."""
        return (QUEUE, self.queue) if self.queue else (EXCHANGE, self.exchange)

    def __repr__(self) -> str:
        return f"<queue {self.queue!r}>" if self.queue else f"<exchange {self.exchange!r} key {self.key!r}>"


class Address:
    """A parsed address.

    `nodes` are the nodes that the address may name, in the order to try; see `target_node`, `source_node`.
    """

    __slots__ = ("text", "kind", "nodes", "unroutable")

    def __init__(self, text: str, kind: AddressKind, nodes: list[Node], unroutable: Unroutable) -> None:
        self.text: Final = text
        self.kind: Final = kind
        self.nodes: Final = nodes
        """Nodes to try; empty for the anonymous terminus and the management node."""
        self.unroutable: Final = unroutable
        """Outcome of a message that reaches no queue."""

    def __repr__(self) -> str:
        return f"<address {self.text!r} {self.kind.name}>"


# Reading


def parse_target(text: str, capabilities: Sequence[str] = ()) -> Address:
    """Return the address of a target; an empty text stands for null. Raises InvalidField."""
    if text == "":
        return Address(text, AddressKind.ANONYMOUS, [], Unroutable.REJECTED)
    wants_queue, wants_topic = _wanted(capabilities)
    unroutable = Unroutable.ACCEPTED if wants_topic else Unroutable.RELEASED
    text = _without_host(text)
    if text.startswith("/"):
        return _read_path(text, unroutable)
    if text.startswith((*_FOREIGN, *_TEMPORARY)):
        return _read_foreign(text, wants_queue, wants_topic, False)
    nodes = _plain_nodes(text, wants_queue, wants_topic)
    if not wants_queue and not wants_topic and is_name(text):
        nodes[0], nodes[1] = nodes[1], nodes[0]
    return Address(text, AddressKind.PLAIN, nodes, unroutable)


def parse_source(text: str, capabilities: Sequence[str] = ()) -> Address:
    """Return the address of a source. Raises InvalidField."""
    if text == "":
        raise InvalidField("a source without an address; only a target may have none")
    wants_queue, wants_topic = _wanted(capabilities)
    text = _without_host(text)
    if text.startswith("/"):
        address = _read_path(text, Unroutable.RELEASED)
        if address.kind is AddressKind.EXCHANGE and not wants_topic:
            raise InvalidField(
                f"address {_shown(text)} of a source: only a queue can be consumed from; "
                f"bind one to the exchange, or ask for a subscription by the capability {TOPIC_CAPABILITY}"
            )
        return address
    if text.startswith((*_FOREIGN, *_TEMPORARY)):
        return _read_foreign(text, wants_queue, wants_topic, True)
    return Address(text, AddressKind.PLAIN, _plain_nodes(text, wants_queue, wants_topic), Unroutable.RELEASED)


def parse_to(octets: bytes) -> Address:
    """Return the address in `to` of a message to the anonymous terminus. Raises InvalidField."""
    if not octets:
        raise InvalidField("a message to the anonymous terminus has no address in 'to'")
    if len(octets) > ADDRESS_MAX:
        raise InvalidField(f"'to' has {len(octets)} bytes; the most is {ADDRESS_MAX}")
    try:
        text = octets.decode()
    except UnicodeDecodeError:
        raise InvalidField("'to' is not UTF-8") from None
    return parse_target(text)


class ToAddresses:
    """Cache of the addresses in `to`, by their bytes: an address is read once.

    The cache has at most `CACHED_MAX` addresses.
    """

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[bytes, Address] = {}

    def address(self, octets: bytes) -> Address:
        """Return the address in `to`. Raises InvalidField; an unreadable address is not cached."""
        address = self._found.get(octets)
        if address is None:
            address = parse_to(octets)
            if len(self._found) >= CACHED_MAX:
                del self._found[next(iter(self._found))]
            self._found[octets] = address
        return address


def _without_host(text: str) -> str:
    """Return an address without the scheme and host of a URL, which uamqp sends with each address.

    A path of RabbitMQ 4 keeps its first slash; a plain name loses it.
    """
    scheme, divider, rest = text.partition("://")
    if divider == "" or scheme not in _SCHEMES:
        return text
    _, slash, path = rest.partition("/")
    if path == "":
        return text
    if (slash + path).startswith((QUEUES, EXCHANGES)) or slash + path == MANAGEMENT:
        return slash + path
    return path


def _wanted(capabilities: Sequence[str]) -> tuple[bool, bool]:
    """Return whether only a queue, or only a topic, is meant; both together mean neither."""
    queue = QUEUE_CAPABILITY in capabilities or TEMPORARY + QUEUE_CAPABILITY in capabilities
    topic = TOPIC_CAPABILITY in capabilities or TEMPORARY + TOPIC_CAPABILITY in capabilities
    return queue and not topic, topic and not queue


def _read_path(text: str, unroutable: Unroutable) -> Address:
    if text.startswith(QUEUES):
        parts = text[len(QUEUES) :].split("/")
        if len(parts) == 1 and parts[0]:
            queue = _decoded(text, "queue", parts[0])
            return Address(text, AddressKind.QUEUE, [_queue_node(queue)], Unroutable.RELEASED)
    elif text.startswith(EXCHANGES):
        parts = text[len(EXCHANGES) :].split("/")
        if len(parts) <= 2:
            exchange = _decoded(text, "exchange", parts[0])
            if exchange in _DEFAULT:
                raise InvalidField(
                    f"address {_shown(text)} names the default exchange; a queue in it is {QUEUES}:queue"
                )
            key = _decoded(text, "routing key", parts[1]) if len(parts) == 2 else ""
            return Address(text, AddressKind.EXCHANGE, [Node("", exchange, key, len(parts) == 1)], unroutable)
    elif text == MANAGEMENT:
        return Address(text, AddressKind.MANAGEMENT, [], Unroutable.REJECTED)
    raise _unknown(text)


def _unknown(text: str) -> InvalidField:
    hint = "a '/' in a name is written %2F"
    for former, present in _FORMER.items():
        if text.startswith(former):
            hint = f"did you mean {_shown(present + text[len(former) :])}?"
    return InvalidField(
        f"address {_shown(text)} is neither {QUEUES}:queue, {EXCHANGES}:exchange/:key, {EXCHANGES}:exchange "
        f"nor a name that begins without '/'; {hint}"
    )


def _plain_nodes(text: str, wants_queue: bool, wants_topic: bool) -> list[Node]:
    """Return the nodes that a name may mean: the queue, the exchange, and the exchange and key that `/` divides."""
    nodes: list[Node] = []
    exchange, slash, key = text.partition("/")
    divided = slash != "" and not wants_queue
    if is_name(text) or not divided:
        _check(text, "name", text)
        if not wants_topic:
            nodes.append(_queue_node(text))
        if not wants_queue:
            nodes.append(Node("", text, "", True))
    if divided:
        _check(text, "exchange", exchange)
        _check(text, "routing key", key)
        nodes.append(Node("", exchange, key, False))
    return nodes


def _read_foreign(text: str, wants_queue: bool, wants_topic: bool, receives: bool) -> Address:
    """Return an address of ActiveMQ. The address may also mean a queue or exchange whose name is the whole text."""
    begin = next((each for each in _FOREIGN if text.startswith(each)), "")
    if begin == "":
        raise InvalidField(
            f"address {_shown(text)} is ActiveMQ's name of a temporary node; ask for a dynamic terminus instead"
        )
    rest = text[len(begin) :]
    is_topic = begin.startswith("topic")
    if wants_queue if is_topic else wants_topic:
        raise InvalidField(f"address {_shown(text)} contradicts the capability of its terminus; leave one of them out")
    if "?" in rest:
        raise InvalidField(f"address {_shown(text)} has options behind '?'; leave them out, or write a '?' as %3F")
    name = _decoded(text, "name", rest)
    if name == "":
        raise InvalidField(f"address {_shown(text)} has no name behind '{begin}'; write {begin}NAME")
    nodes = _plain_nodes(name, not is_topic, is_topic)
    if is_name(text):
        nodes += _plain_nodes(text, wants_queue, wants_topic)
    if not is_topic:
        return Address(text, AddressKind.PLAIN, nodes, Unroutable.RELEASED)
    key = f"{name[:-1]}#" if receives and (name == ">" or name.endswith(".>")) else name
    nodes.append(Node("", TOPICS, key, False))
    return Address(text, AddressKind.PLAIN, nodes, Unroutable.ACCEPTED)


def _queue_node(queue: str) -> Node:
    return Node(queue, "", queue, False)


def _decoded(text: str, what: str, part: str) -> str:
    """Return a percent-decoded name. Raises InvalidField."""
    try:
        name = percent_decoded(part)
    except ValueError as error:
        raise InvalidField(f"address {_shown(text)}: its {what} has {error}") from None
    _check(text, what, name)
    return name


def _check(text: str, what: str, name: str) -> None:
    if not is_name(name):
        octets = len(name.encode(errors="replace"))
        raise InvalidField(f"address {_shown(text)}: its {what} has {octets} bytes; the most is {NAME_MAX}")


def _shown(text: str) -> str:
    return f"'{text[:60]}…'" if len(text) > 60 else f"'{text}'"


# Finding


def target_node(address: Address, vhost: VirtualHost) -> Node:
    """Return the first node of a target's address that exists; queues of direct replies do. Raises NotFound."""
    for node in address.nodes:
        if node.queue:
            if vhost.default_route(node.queue) is not None:
                return node
        elif node.exchange in vhost.exchanges:
            return node
    raise _not_found(address, vhost)


def source_node(address: Address, vhost: VirtualHost) -> Node:
    """Return the first node of a source's address that exists. Raises NotFound."""
    for node in address.nodes:
        if node.queue in vhost.queues or (not node.queue and node.exchange in vhost.exchanges):
            return node
    raise _not_found(address, vhost)


def _not_found(address: Address, vhost: VirtualHost) -> NotFound:
    if not address.nodes:
        return NotFound(f"address {_shown(address.text)} names neither a queue nor an exchange")
    missing = [f"no queue '{node.queue}'" if node.queue else f"no exchange '{node.exchange}'" for node in address.nodes]
    hint = f"; did you mean '/{address.text}'?" if address.text.startswith(_WITHOUT_SLASH) else ""
    return NotFound(f"address {_shown(address.text)}: {', '.join(missing)} in vhost '{vhost.name}'{hint}")


def routing_key(node: Node, subject: str) -> str:
    """Return the routing key of a message to a node.

    Raises InvalidField for a subject that is longer than a routing key may be.
    """
    if not node.by_subject:
        return node.key
    if not is_name(subject):
        octets = len(subject.encode(errors="replace"))
        raise InvalidField(
            f"subject {_shown(subject)}, the routing key to exchange '{node.exchange}', has {octets} bytes; "
            f"the most is {NAME_MAX}"
        )
    return subject


EXCHANGE_KEY: Final = "x-exchange"
ROUTING_KEY: Final = "x-routing-key"


def annotations_octets(envelope: Envelope) -> bytes:
    """Return the address annotations of a message without other annotations, as a section cached with its envelope."""
    entry = envelope.encoded.entry(FIRST_OCTET)
    if not entry.encoded:
        annotations: dict[object, object] = {
            Symbol(EXCHANGE_KEY): envelope.exchange,
            Symbol(ROUTING_KEY): envelope.routing_key,
        }
        entry.encoded = encode_value(Described(ulong(MESSAGE_ANNOTATIONS), annotations))
    return entry.encoded


def with_address(content: bytes, sections: Sections, envelope: Envelope) -> bytes:
    """Return an annotated message with the annotations of its address added. Raises CodecError."""
    added: dict[str, object] = {EXCHANGE_KEY: envelope.exchange, ROUTING_KEY: envelope.routing_key}
    return with_annotations(content, sections, added)


def create_missing_queue(vhost: VirtualHost, address: Address, asker: Connection) -> None:
    """Create the durable queue of an address that names nothing yet, if the queue's settings say so.

    Raises BrokerError.
    """
    for node in address.nodes:
        if vhost.default_route(node.queue) is not None if node.queue else node.exchange in vhost.exchanges:
            return
    kind = vhost.default_type().apply_to
    for node in address.nodes:
        if node.queue and vhost.table.queue(vhost.name, node.queue, {}, kind).auto_create:
            declare_queue(asker_of(asker), vhost, node.queue, {}, True)
            return
