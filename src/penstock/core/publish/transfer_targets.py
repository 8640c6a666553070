"""The targets of a transfer: a queue, an exchange, or for each dead letter the queue in which it died last.

A message that is moved or copied into a queue keeps its exchange, its routing key and its death headers; it counts in
the depth of its address once. A message for an exchange is published there again, with the transfer's routing key. A
redriven dead letter has the exchange and the routing key of the publish that died, and a count of its redrives.

In the target it is a new message: its time to live begins again, and its deliveries count from 0. A dead letter has no
expiration of its own any more, so only the time to live of the queue applies to a redriven one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from penstock.core.gates.address_depth import LEFT, AddressShare, share_of
from penstock.core.message import Envelope, Message
from penstock.core.message_format import MessageFormats
from penstock.core.queue.queue import Queue, is_delayed_in
from penstock.core.routing.route import Route
from penstock.core.routing.topology import Topology, resolve_message
from penstock.errors import BrokerError, NotFound, PreconditionFailed
from penstock.flow.gate import NO_GATES, Gate
from penstock.flow.timers import NEVER

REDRIVES: Final = "x-redrive-count"
"""Header of a redriven message: how often it was redriven."""
REDRIVES_MAX: Final = 1 << 31
"""Count at or above which the header cannot come from a broker."""
ADDRESSES_MAX: Final = 1_024
"""Most addresses of redriven messages that are shared; at the bound all are dropped."""
NOT_DEAD: Final = "the broker has written no death headers into them"


class Placement:
    """Targets and content of one message, or the reason why it stays."""

    __slots__ = ("queues", "gates", "envelope", "content", "charge", "share", "left", "source")

    def __init__(self, queues: list[Queue], envelope: Envelope, content: bytes, charge: i64) -> None:
        self.queues = queues
        self.gates: list[Gate] = NO_GATES
        """Gates of the address, for a publish to an exchange."""
        self.envelope = envelope
        self.content = content
        self.charge: i64 = charge
        self.share: AddressShare | None = None
        """The message's part in the depth of an address; None if it counts in none."""
        self.left: str = ""
        """Reason why the message stays where it is, as a clause about such messages; "" if it goes."""
        self.source: str = ""
        """The queue in which a dead letter that stays died last; "" if it is unknown, or does not matter."""


class TransferTargets:
    """The targets of one transfer."""

    def check(self) -> None:
        """Raise an error if no message can go any more: the target was deleted."""
        raise NotImplementedError

    def place(self, message: Message) -> Placement:
        """Return where a message goes."""
        raise NotImplementedError

    def describe(self) -> str:
        """Return the target for sentences."""
        raise NotImplementedError


def staying(message: Message, reason: str, source: str = "") -> Placement:
    """Return the placement of a message that stays."""
    placement = Placement([], message.envelope, message.content, message.charge)
    placement.left = reason
    placement.source = source
    return placement


def why_never(queue: Queue, envelope: Envelope, content: bytes, charge: i64) -> str:
    """Return why a message can never enter a queue, even if it is empty; "" if it can."""
    if not queue.can_ever_fit(charge):
        return (
            f"they can never fit into queue '{queue.name}' with its capacity of {queue.thresholds.capacity.describe()}"
        )
    if is_delayed_in(queue, envelope) and not queue.could_ever_delay(1, charge):
        return f"they can never wait for their time in the memory of queue '{queue.name}'"
    length = queue.length
    if length is not None and (length.most.messages < 1 or length.body_bytes(content) > length.most.bytes):
        return f"they can never fit into queue '{queue.name}' with its max-length of {length.most.describe()}"
    return ""


class ToQueue(TransferTargets):
    """One queue, which messages enter as they are."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self._queues = [queue]

    def check(self) -> None:
        """See `TransferTargets.check`. Raises NotFound (404)."""
        if self.queue.deleted:
            raise NotFound(f"target queue '{self.queue.name}' was deleted meanwhile")

    def place(self, message: Message) -> Placement:
        """See `TransferTargets.place`."""
        never = why_never(self.queue, message.envelope, message.content, message.charge)
        if never:
            return staying(message, never)
        placement = Placement(self._queues, message.envelope, message.content, message.charge)
        share = message.share
        placement.share = None if share is LEFT else share
        return placement

    def describe(self) -> str:
        """See `TransferTargets.describe`."""
        return f"queue '{self.queue.name}'"


class ToNowhere(TransferTargets):
    """No target: messages are deleted, without dead letters."""

    def check(self) -> None:
        """See `TransferTargets.check`."""

    def place(self, message: Message) -> Placement:
        """See `TransferTargets.place`."""
        return Placement([], message.envelope, message.content, message.charge)

    def describe(self) -> str:
        """See `TransferTargets.describe`."""
        return "nowhere"


class ToExchange(TransferTargets):
    """An exchange and a routing key: each message is published there again."""

    def __init__(self, topology: Topology, formats: MessageFormats, source: Queue, route: Route) -> None:
        self._topology = topology
        self._formats = formats
        self._source = source
        self._route = route
        self._dead = Route(Envelope(route.envelope.exchange, route.envelope.routing_key, died=True), False)
        """The same route for dead letters."""

    def check(self) -> None:
        """See `TransferTargets.check`. Raises NotFound (404), AccessRefused (403) for an internal exchange."""
        self._topology.refresh_route(self._route)
        if self._route.control:
            raise PreconditionFailed(f"exchange '{self._route.envelope.exchange}' takes requests to the broker only")
        if not self._route.queues and not self._route.by_headers:
            raise NotFound(f"{self.describe()} leads to no queue")

    def place(self, message: Message) -> Placement:
        """See `TransferTargets.place`."""
        envelope, content = message.envelope, message.content
        route = self._dead if envelope.died else self._route
        try:
            self._topology.refresh_route(route)
            if route.by_headers:
                message_format = self._formats.find(content)
                resolve_message(self._topology, route, message_format.headers(content), content, message_format)
        except BrokerError as error:
            return staying(message, str(error))
        queues = route.queues
        if not queues:
            return staying(message, f"{self.describe()} leads to no queue for them")
        if self._source in queues:
            return staying(message, f"{self.describe()} leads back to queue '{self._source.name}'")
        for queue in queues:
            never = why_never(queue, route.envelope, content, message.charge)
            if never:
                return staying(message, never)
        gates = route.gates
        if envelope.persistent:
            route = route.persistent()
        route = route.variant(envelope.priority, envelope.ttl_s)
        placement = Placement(queues, route.envelope, content, message.charge)
        placement.gates = gates
        placement.share = share_of(gates, message.charge)
        return placement

    def describe(self) -> str:
        """See `TransferTargets.describe`."""
        address = self._route.envelope
        return f"exchange '{address.exchange}' with routing key '{address.routing_key}'"


class ToSources(TransferTargets):
    """For each dead letter the queue in which it died last."""

    def __init__(
        self,
        topology: Topology,
        formats: MessageFormats,
        source: Queue,
        trusts: bool,
        refusal: Callable[[str], str],
        forgets: bool = False,
    ) -> None:
        self._topology = topology
        self._formats = formats
        self._source = source
        self._trusts: bool = trusts
        """True if death headers count that a publisher has sent, such as those of another broker."""
        self._forgets: bool = forgets
        """True if the messages lose their death headers: their next death is the first one."""
        self._refusal = refusal
        """Function that returns why the requester may not write to a queue; "" if it may."""
        self._addresses: dict[tuple[str, str, int, bool, bool], Envelope] = {}

    def check(self) -> None:
        """See `TransferTargets.check`: letters without a target stay."""

    def place(self, message: Message) -> Placement:
        """See `TransferTargets.place`."""
        content = message.content
        if not message.envelope.died and not self._trusts:
            return staying(message, NOT_DEAD)
        entries = self._formats.find(content).death_entries(content)
        if not entries:
            return staying(message, NOT_DEAD)
        name = str(entries[0]["queue"])
        queue = self._topology.queues.get(name)
        reason = self._why_not(name, queue)
        if queue is None or reason:
            return staying(message, reason, name)
        counted = self._counted(content)
        if counted is None:
            return staying(message, f"their headers have no room for {REDRIVES}", name)
        charge = message.charge + len(counted) - len(content)
        never = why_never(queue, message.envelope, counted, charge)
        if never:
            return staying(message, never, name)
        return Placement([queue], self._address(message.envelope, entries[0]), counted, charge)

    def describe(self) -> str:
        """See `TransferTargets.describe`."""
        return "the queues in which they died"

    def _why_not(self, name: str, queue: Queue | None) -> str:
        if queue is None:
            return f"queue '{name}', in which they died, does not exist"
        if queue is self._source:
            return f"they died in queue '{name}' itself"
        if queue.owner is not None:
            return f"queue '{name}' is exclusive to a connection"
        return self._refusal(name)

    def _counted(self, content: bytes) -> bytes | None:
        """Return a content with one redrive more."""
        message_format = self._formats.find(content)
        if self._forgets:
            fresh = message_format.without_deaths(content)
            if fresh is None:
                return None
            content = fresh
        before = message_format.headers(content).get(REDRIVES)
        is_count = isinstance(before, int) and not isinstance(before, bool) and 0 < before < REDRIVES_MAX
        count = before + 1 if isinstance(before, int) and is_count else 1
        return message_format.with_headers(content, {REDRIVES: count})

    def _address(self, letter: Envelope, entry: dict[str, object]) -> Envelope:
        """Return the address of the publish that died; that of the letter if the entry does not say."""
        exchange, keys = entry.get("exchange"), entry.get("routing-keys")
        key = keys[0] if isinstance(keys, list) and keys else None
        if not isinstance(exchange, str) or not isinstance(key, str):
            exchange, key = letter.exchange, letter.routing_key
        died = letter.died and not self._forgets
        known = (exchange, key, int(letter.priority), letter.persistent, died)
        envelope = self._addresses.get(known)
        if envelope is None:
            if len(self._addresses) >= ADDRESSES_MAX:
                self._addresses.clear()
            envelope = Envelope(exchange, key, letter.priority, NEVER, letter.persistent, died)
            self._addresses[known] = envelope
        return envelope
