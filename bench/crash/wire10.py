"""A blocking AMQP 1.0 connection with one session, for the same clients as the one of AMQP 0-9-1.

It has the calls of `Link`, and says them in AMQP 1.0: a publish is a transfer on a link to its address, a confirmation
the outcome `accepted`, an acknowledgement a disposition, and a transaction is declared and discharged at a coordinator.
"""

from collections import deque
from typing import Any

from typing_extensions import override

from bench.crash.topology import LOCAL_CONTAINER, LOCAL_EXCHANGE, LOCAL_LINK, SUBSCRIPTION
from bench.crash.wire import FORCED, Address, Delivery, Gone, Link, Refused
from penstock.content.properties import Properties
from penstock.protocols.amqp10.message_format import Amqp10Format
from penstock.wire.amqp091 import spec as spec091
from penstock.wire.amqp091.codec import Method
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, as_described, composite, decode_performative, encode_composite
from penstock.wire.amqp10.frames import AMQP_HEADER, HEADER_OCTETS, SASL_HEADER, frame
from penstock.wire.amqp10.sections import Sections
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import Described, Symbol, ulong
from penstock.wire.sasl import plain_response

WINDOW = 0x7FFFFFFF
PREFETCH = 1000
"""Credit of a consumer without a bound."""
FRAMES_KEPT = 8
"""Frames of the broker's window that are left for its coordinator."""
COORDINATOR = 0
FIRST_HANDLE = 1
FORCED_CONDITION = "amqp:connection:forced"
INTERNAL = 541
"""The code of any other close: AMQP 1.0 has conditions instead, which are in the text."""
FORMAT = Amqp10Format()
NO_LOCAL = "apache.org:no-local-filter:list"


class Sender:
    """A link that sends."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.sent = 0
        self.credit = 0
        self.attached = False


class Link10(Link):
    """A connection to 127.0.0.1; every call may raise Gone or Refused."""

    container = ""
    """Its container-id; empty for one of its own."""

    @override
    def _open(self) -> None:
        self._expects_header = True
        self._heard: deque[Composite] = deque()
        """Performatives that somebody waits for."""
        self._senders: dict[str, Sender] = {}
        self._by_handle: dict[int, Sender] = {}
        self._next_handle = FIRST_HANDLE
        self._next_id = 0
        """Delivery-id of the next transfer."""
        self._numbers: dict[int, int] = {}
        """Numbers of unsettled publishes, by their delivery-ids."""
        self._frames_left = 0
        self._frames_sent = 0
        self._frames_seen = 0
        self._receiver = -1
        """Handle of the consumer; -1 without one."""
        self._prefetch = 0
        self._received = 0
        """Deliveries that have come; the tag of one is its delivery-id and 1."""
        self._held: dict[int, None] = {}
        """Delivery-ids that are not settled, the oldest first."""
        self._pieces: list[bytes] = []
        self._arriving = 0
        self._transaction = b""
        """Id of the open transaction; empty outside of transactions."""
        self._outcomes: deque[Composite] = deque()
        """Outcome of the last request to the coordinator, once it has come."""
        self._asked = -1
        """Delivery-id of that request."""
        init = composite(spec.SASL_INIT, mechanism="PLAIN", initial_response=plain_response("guest", "guest"))
        self._out += SASL_HEADER + frame(0, encode_composite(init), spec.FRAME_SASL) + AMQP_HEADER
        self._say(spec.OPEN, container_id=self.container or f"crash-{id(self)}", hostname=f"vhost:{self._vhost}")
        self._say(spec.BEGIN, next_outgoing_id=0, incoming_window=WINDOW, outgoing_window=WINDOW)
        self._frame_max = int(self._await("open").number("max_frame_size", 1 << 16))
        self._frames_left = int(self._await("begin").number("incoming_window"))

    # -- what is sent ------------------------------------------------------------------------------------------------

    @override
    def ask(self, method: int, **args: Any) -> Method:
        if method == spec091.BASIC_QOS:
            self._prefetch = args["prefetch_count"]
        elif method == spec091.BASIC_CONSUME:
            self._consume(args["queue"])
        elif method == spec091.TX_SELECT:
            target = composite(spec.COORDINATOR, capabilities=["amqp:local-transactions"])
            self._attach("", Sender(COORDINATOR), target)
            self._declare()
        elif method in (spec091.TX_COMMIT, spec091.TX_ROLLBACK):
            self._discharge(fail=method == spec091.TX_ROLLBACK)
        elif method != spec091.CONFIRM_SELECT:
            raise NotImplementedError(f"method {method:#x} over AMQP 1.0")
        return Method(spec091.METHODS[method], {})

    @override
    def say(self, method: int, **args: Any) -> None:
        last = args["delivery_tag"] - 1
        first = next(iter(self._held)) if args.get("multiple") else last
        if method == spec091.BASIC_ACK:
            outcome = composite(spec.ACCEPTED)
        elif args["requeue"]:
            outcome = composite(spec.RELEASED)
        else:
            outcome = composite(spec.REJECTED)
        settled = True
        if self._transaction:
            # Unsettled: after a rollback the delivery is ours as before.
            outcome = composite(spec.TRANSACTIONAL_STATE, txn_id=self._transaction, outcome=outcome)
            settled = False
        self._say(spec.DISPOSITION, role=True, first=first, last=last, settled=settled, state=outcome)
        for number in range(first, last + 1):
            self._held.pop(number, None)
        self._renew()

    @override
    def publish(
        self, exchange: str, routing_key: str, properties: Properties, body: bytes, *, mandatory: bool = False
    ) -> int:
        delivery = self._send(self._sender(exchange, routing_key), properties, body, settled=False)
        self.published += 1
        if not self._transaction:
            self._numbers[delivery] = self.published
        return self.published

    def publish_settled(self, exchange: str, routing_key: str, properties: Properties, body: bytes) -> None:
        """Note a message to be sent settled: nobody will hear of it."""
        self._send(self._sender(exchange, routing_key), properties, body, settled=True)

    def publish_aborted(self, exchange: str, routing_key: str, properties: Properties, body: bytes) -> None:
        """Note a message to be begun and aborted (section 2.6.14): it must never be seen."""
        sender = self._sender(exchange, routing_key)
        content = FORMAT.encode(properties, body)
        delivery = self._begin_delivery(sender, 2 + FRAMES_KEPT)
        tag = delivery.to_bytes(4, "big")
        self._transfer_frame(content[: self._frame_max // 2], handle=sender.handle, more=True, delivery_id=delivery,
                    delivery_tag=tag, message_format=0)  # fmt: skip
        self._transfer_frame(b"", handle=sender.handle, aborted=True)

    def _sender(self, exchange: str, routing_key: str) -> Sender:
        address = f"/exchanges/{exchange}/{routing_key}" if exchange and routing_key else f"/exchanges/{exchange}"
        if not exchange:
            address = f"/queues/{routing_key}"
        found = self._senders.get(address)
        if found is None:
            found = Sender(self._next_handle)
            self._next_handle += 1
            self._attach(address, found, composite(spec.TARGET, address=address))
        return found

    def _attach(self, address: str, sender: Sender, target: Composite) -> None:
        self._senders[address] = sender
        self._by_handle[sender.handle] = sender
        self._say(spec.ATTACH, name=f"sender {sender.handle}", handle=sender.handle, role=False,
                  source=composite(spec.SOURCE), target=target, initial_delivery_count=0)  # fmt: skip

    def _send(self, sender: Sender, properties: Properties, body: bytes, settled: bool) -> int:
        state = composite(spec.TRANSACTIONAL_STATE, txn_id=self._transaction) if self._transaction else None
        return self._transfer(sender, FORMAT.encode(properties, body), settled, state, FRAMES_KEPT)

    def _transfer(self, sender: Sender, content: bytes, settled: bool, state: Composite | None, kept: int) -> int:
        """Note the frames of a delivery; wait for credit and the session's window. Returns its delivery-id."""
        step = self._frame_max - 128
        delivery = self._begin_delivery(sender, len(content) // step + 1 + kept)
        for start in range(0, max(1, len(content)), step):
            fields: dict[str, object] = {"handle": sender.handle, "more": start + step < len(content)}
            if start == 0:
                fields |= {"delivery_id": delivery, "delivery_tag": delivery.to_bytes(4, "big"), "message_format": 0}
                fields |= {"settled": settled, "state": state}
            self._transfer_frame(content[start : start + step], **fields)
        return delivery

    def _begin_delivery(self, sender: Sender, frames: int) -> int:
        """Wait for credit and for so many frames of the session's window. Returns the next delivery-id."""
        while sender.credit <= 0 or self._frames_left < frames:
            self.flush()
            self.read()
        delivery = self._next_id
        self._next_id += 1
        sender.credit -= 1
        sender.sent += 1
        return delivery

    def _transfer_frame(self, payload: bytes, **fields: object) -> None:
        """Note a transfer."""
        self._out += frame(0, encode_composite(composite(spec.TRANSFER, **fields)) + payload)
        self._frames_left -= 1
        self._frames_sent += 1

    def _say(self, code: int, **fields: object) -> None:
        self._out += frame(0, encode_composite(composite(code, **fields)))

    def _await(self, name: str) -> Composite:
        """Send what is to be sent, and wait for a performative; others of its kind before it are dropped."""
        self.flush()
        while True:
            while self._heard:
                heard = self._heard.popleft()
                if heard.name == name:
                    return heard
            self.read()

    # -- transactions ------------------------------------------------------------------------------------------------

    def _ask_coordinator(self, request: Composite) -> Composite:
        """Send a request and return its outcome."""
        body = encode_value(Described(ulong(spec.AMQP_VALUE), as_described(request)))
        self._asked = self._transfer(self._senders[""], body, False, None, 0)
        self.flush()
        while not self._outcomes:
            self.read()
        return self._outcomes.popleft()

    def _declare(self) -> None:
        answer = self._ask_coordinator(composite(spec.DECLARE))
        if answer.code != spec.DECLARED:
            raise Refused(0, f"declare was answered with {answer!r}")
        self._transaction = answer.octets("txn_id")

    def _discharge(self, fail: bool) -> None:
        answer = self._ask_coordinator(composite(spec.DISCHARGE, txn_id=self._transaction, fail=fail))
        if answer.code != spec.ACCEPTED:
            raise Refused(0, f"discharge was answered with {answer!r}")
        self._declare()

    # -- what comes --------------------------------------------------------------------------------------------------

    def _consume(self, queue: str) -> None:
        self._receiver = self._next_handle
        self._next_handle += 1
        name, source = self._source(queue)
        self._say(spec.ATTACH, name=name, handle=self._receiver, role=True, source=source,
                  target=composite(spec.TARGET))  # fmt: skip
        self._renew()
        self.flush()

    def wait_attached(self) -> None:
        """Wait until the broker has attached a link of ours."""
        self._await("attach")

    def _source(self, queue: str) -> tuple[str, Composite]:
        """Return the name and the source of a consumer's link."""
        return f"receiver {self._receiver}", composite(spec.SOURCE, address=f"/queues/{queue}")

    def _renew(self) -> None:
        """Grant credit for as many deliveries as may be unsettled."""
        if self._receiver >= 0:
            credit = (self._prefetch or PREFETCH) - len(self._held)
            self._say(spec.FLOW, next_incoming_id=self._frames_seen, incoming_window=WINDOW, handle=self._receiver,
                      next_outgoing_id=self._frames_sent, outgoing_window=WINDOW, delivery_count=self._received,
                      link_credit=max(0, credit))  # fmt: skip

    @override
    def _take(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        at = 0
        while len(data) - at >= HEADER_OCTETS:
            if self._expects_header:
                self._expects_header = False
                at += HEADER_OCTETS
                continue
            end = at + int.from_bytes(data[at : at + 4], "big")
            if end > len(data):
                break
            body = data[at + 4 * data[at + 4] : end]
            at = end
            if body:
                performative, read = decode_performative(body)
                self._act(performative, body[read:])
        self._rest = data[at:]

    def _act(self, performative: Composite, payload: bytes) -> None:
        name = performative.name
        if name == "transfer":
            self._on_transfer(performative, payload)
        elif name == "disposition":
            self._on_disposition(performative)
        elif name == "flow":
            self._on_flow(performative)
        elif name == "sasl-outcome":
            self._expects_header = True
        elif name in ("detach", "end", "close"):
            error = performative.inner("error")
            text = f"{name}: {error!r}"
            if name != "close":
                self._closed = Refused(0, text)
                return
            forced = error is not None and error.text("condition") == FORCED_CONDITION
            raise Gone(FORCED if forced else INTERNAL, text)
        else:
            self._heard.append(performative)

    def _on_flow(self, flow: Composite) -> None:
        seen = flow.number("next_incoming_id", 0)
        self._frames_left = flow.number("incoming_window") - (self._frames_sent - seen)
        sender = self._by_handle.get(flow.number("handle"))
        if sender is not None:
            sender.credit = flow.number("delivery_count", 0) + flow.number("link_credit", 0) - sender.sent
            if flow.flag("drain") and sender.credit > 0:
                sender.sent += sender.credit
                sender.credit = 0
                self._say(spec.FLOW, next_incoming_id=self._frames_seen, incoming_window=WINDOW, handle=sender.handle,
                          next_outgoing_id=self._frames_sent, outgoing_window=WINDOW, delivery_count=sender.sent,
                          link_credit=0)  # fmt: skip

    def _on_disposition(self, disposition: Composite) -> None:
        state = disposition.inner("state")
        if not disposition.flag("role") or state is None:
            return
        first = disposition.number("first")
        for delivery in range(first, disposition.number("last", first) + 1):
            if delivery == self._asked:
                self._outcomes.append(state)
            number = self._numbers.pop(delivery, None)
            if number is not None and self.on_confirm is not None:
                self.on_confirm(number, False, state.code == spec.ACCEPTED)

    def _on_transfer(self, transfer: Composite, payload: bytes) -> None:
        self._frames_seen += 1
        if not self._pieces:
            self._arriving = transfer.number("delivery_id")
        self._pieces.append(payload)
        if transfer.flag("more"):
            return
        content = b"".join(self._pieces)
        self._pieces = []
        sections = Sections()
        sections.walk(content, 0, len(content))
        again = sections.first_acquirer == 0 or sections.delivery_count > 0
        self._received += 1
        self._held[self._arriving] = None
        neutral = FORMAT.properties(content)
        self.deliveries.append(
            Delivery(self._arriving + 1, again, Properties(message_id=neutral.message_id), FORMAT.body(content))
        )


class SubscribedLink10(Link10):
    """The connection of a durable subscription with no-local: what it consumes from is always that."""

    container = LOCAL_CONTAINER

    @override
    def _source(self, queue: str) -> tuple[str, Composite]:
        filters = {Symbol(NO_LOCAL): Described(Symbol(NO_LOCAL), [])}
        return LOCAL_LINK, composite(
            spec.SOURCE,
            address=f"/exchanges/{LOCAL_EXCHANGE}",
            durable=2,
            expiry_policy="never",
            filter=filters,
            capabilities=["topic"],
        )


def subscribe(address: Address) -> None:
    """Make the subscription: it lasts when its link has gone."""
    link = SubscribedLink10(address)
    link.ask(spec091.BASIC_CONSUME, queue=SUBSCRIPTION)
    link.wait_attached()
    link.abort()
