"""Connection of the client: what both protocols share of input, output, requests and ends.

Theory of operation. A shell owns the transport. It calls `begin` when that is connected, `receive` with what came,
`take_output` for what to send, `tick` at `next_deadline`, and `lose` when it is gone. After each of them it releases
what is in `woken`, tells `events`, and closes the transport if `fault` is set. An engine outlives its transports: after
`lose` with `again`, publishers and receivers wait for the next `begin`, and attach again by themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from penstock.client.engine.headers import check_arguments
from penstock.client.engine.outcomes import REFUSED, UNKNOWN, ConnectionLost, TransactionAborted, TransactionInDoubt
from penstock.client.engine.terms import (
    BLOCKED,
    CLOSED,
    LOST,
    RECONNECTED,
    UNBLOCKED,
    ConnectionTerms,
    Event,
    PublisherTerms,
    ReceiverTerms,
    Tally,
)
from penstock.client.engine.waits import Call, Steps, Wakes
from penstock.client.errors import ClientError, ConnectError, ConnectionClosed, ControlError, Timeout
from penstock.flow.timers import NEVER, TimerHandler
from penstock.markers import override

if TYPE_CHECKING:
    from penstock.client.engine.publisher import PublisherCore
    from penstock.client.engine.receiver import ReceiverCore
    from penstock.client.engine.requester import Requester

IDLE: Final = 0
OPENING: Final = 1
OPEN: Final = 2
CLOSING: Final = 3
ENDED: Final = 4
"""Phases of a connection: without a transport, logging in, in use, closing, and over for good."""

TARGETS_MOST: Final = 64
"""Most targets that a connection calls at the same time; one that is idle makes room for another."""
REQUESTS_MAX: Final = 64
"""Most control requests without an answer."""
CONTROL_EXCHANGE: Final = "penstock.control"
UPDATE_SECRET: Final = "connection.update-secret"
"""Name of the call that gives the broker a newer token."""
JSON_TYPE: Final = "application/json"
BLOCK_TYPE: Final = "application/vnd.penstock.block"
ERROR_TYPE: Final = "application/vnd.penstock.error+json"
PROGRESS_TYPE: Final = "application/vnd.penstock.progress+json"
"""Content types of control requests and their answers; a block is one of messages (docs/blocks.md)."""
REPLY_QUEUE: Final[dict[str, object]] = {
    **dict.fromkeys(("capacity-messages", "stop-messages", "stop-bytes", "resume-messages", "resume-bytes"), "none"),
    **dict.fromkeys(("message-ttl", "expires", "consumer-window-bytes", "consumer-max-rate"), "none"),
    **dict.fromkeys(("max-length", "max-length-bytes", "slow-consumer-rate"), "none"),
    "capacity-bytes": 256 * 1024 * 1024,
    "overflow": "block",
    "consumer-window-adaptive": False,
}
"""Arguments of the queue of answers. They are stronger than patterns: a setting of `#` locks no operator out."""


class Heart(TimerHandler):
    """Heartbeats of a connection, both ways."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.engine = engine
        self.sends_every: float = NEVER
        """Seconds after which the broker must have heard something; infinity for none."""
        self.hears_within: float = NEVER
        """Seconds of silence after which the connection is broken."""
        self.heard_at: float = 0.0
        self.sent_at: float = 0.0

    def start(self, sends_every: float, hears_within: float) -> None:
        """Begin: 0 stands for none."""
        engine = self.engine
        self.sends_every = sends_every or NEVER
        self.hears_within = hears_within or NEVER
        self.heard_at = self.sent_at = engine.now
        engine.timers.drop(self)
        engine.timers.add(self, engine.now + min(self.sends_every, self.hears_within) / 2)

    def stop(self) -> None:
        """End: there is no transport."""
        self.sends_every = self.hears_within = NEVER
        self.engine.timers.drop(self)

    @override
    def on_deadline(self, now: float) -> float:
        if now - self.heard_at > self.hears_within:
            self.engine.break_off(ConnectionClosed(None, f"nothing has come for {self.hears_within:g} s"))
            return NEVER
        if now - self.sent_at >= self.sends_every / 2:
            self.engine.write_heartbeat()
            self.sent_at = now
        return now + min(self.sends_every, self.hears_within) / 4


class Services:
    """Targets that a connection calls, and the names of queues that it needs for itself."""

    def __init__(self) -> None:
        self.names: int = 0
        """Names of queues that were given away."""
        self.late_answers: int = 0
        """Answers that came after the deadline of their calls."""
        self.requesters: dict[tuple[str, str], Requester] = {}
        """Requesters by exchange and routing key, the one that was used last at the end."""

    def new_name(self, engine: Engine) -> str:
        """Return the name of a queue that no other connection has: AMQP 1.0 lets no broker choose one."""
        self.names += 1
        return f"client-{engine.terms.producer or engine.terms.container}-{self.names}"

    def drop_answer(self) -> None:
        """Count an answer that came too late."""
        self.late_answers += 1

    def requester(self, engine: Engine, exchange: str, key: str) -> Requester:
        """Return the requester of a target. Raises `ClientError` when all that there may be are in use."""
        requester = self.requesters.pop((exchange, key), None)
        if requester is None:
            if len(self.requesters) >= TARGETS_MOST:
                self._close_idle(engine)
            requester = engine.requester(exchange, key)
        self.requesters[exchange, key] = requester
        return requester

    def _close_idle(self, engine: Engine) -> None:
        for place, requester in self.requesters.items():
            if not requester.open and not requester.line and requester.granted == 0:
                del self.requesters[place]
                if requester.epoch == engine.epoch:
                    requester.detach()
                return
        raise ClientError(f"{TARGETS_MOST} targets have calls without an answer, the most of a connection")


class Engine(Wakes):
    """Connection of one protocol."""

    protocol: str = ""
    """Name of the protocol, as in the option."""

    def __init__(self, terms: ConnectionTerms) -> None:
        super().__init__()
        self.terms = terms
        self.phase: i64 = IDLE
        self.epoch: i64 = 0
        """Number of the transport; what belongs to an earlier one is over."""
        self.out = BytesWriter()
        self.rest: bytes = b""
        self.events: list[Event] = []
        """Events that the shell tells, and logs if they are warnings."""
        self.is_scheduled: bool = False
        """True if the shell knows that there is output."""
        self.is_congested: bool = False
        """True if the transport takes no more."""
        self.fault: ClientError | None = None
        """Reason why the transport has to be closed after its output."""
        self.opened = Call("connection")
        self.blocked_reason: str = ""
        """The broker's reason for blocking the connection; empty if it does not."""
        self.blocked_at: float = 0.0
        self.tally = Tally()
        self.lost_at: float = 0.0
        self.lost_reason: str = ""
        self.server: dict[str, object] = {}
        """Properties that the broker announced."""
        self.publishers: list[PublisherCore] = []
        self.receivers: list[ReceiverCore] = []
        self.calls: list[Call] = []
        """Requests without an answer."""
        self.requests: dict[str, Call] = {}
        """Control requests without an answer, by correlation id."""
        self.request_number: int = 0
        self.heart = Heart(self)
        self.services = Services()

    # What a protocol does

    def reset(self) -> None:
        """Begin with a new transport: forget the channels or sessions of the last one, and write the first octets."""
        raise NotImplementedError

    def read(self, data: bytes) -> None:
        """Read input, with what was left of the last."""
        raise NotImplementedError

    def write_heartbeat(self) -> None:
        """Write a heartbeat."""
        raise NotImplementedError

    def write_close(self) -> None:
        """Begin to close the connection."""
        raise NotImplementedError

    def new_publisher(self, terms: PublisherTerms) -> PublisherCore:
        """Return a new publisher, which is not attached."""
        raise NotImplementedError

    def new_receiver(self, terms: ReceiverTerms) -> ReceiverCore:
        """Return a new receiver, which is not attached."""
        raise NotImplementedError

    def requester(self, exchange: str, key: str) -> Requester:
        """Return a new requester."""
        raise NotImplementedError

    def call(self, name: str, arguments: dict[str, Any]) -> Call:
        """Begin a declaration or deletion, such as "queue.declare"."""
        raise NotImplementedError

    def send_request(self, operation: str, kind: str, body: bytes, number: str) -> None:
        """Write a control request; `kind` is its content type."""
        raise NotImplementedError

    def is_sent(self, call: Call) -> bool:
        """Return whether a control request was written, and need not wait for what the broker says."""
        raise NotImplementedError

    def offers(self, feature: str) -> bool:
        """Return whether the broker has announced a feature."""
        capabilities = self.server.get("capabilities")
        return isinstance(capabilities, dict) and capabilities.get(feature) is True

    def is_penstock(self) -> bool:
        """Return whether the broker is Penstock."""
        return self.server.get("product") == "Penstock" or "penstock-version" in self.server

    def check_declares(self, name: str) -> None:
        """Raise `ClientError` if the broker has no service for declarations and the like, such as "queue.declare"."""

    def broker_name(self) -> str:
        """Return the broker's name for people."""
        return str(self.server.get("product") or "this broker")

    # Transport

    def begin(self, now: float) -> None:
        """Log in on a new transport."""
        self.now = now
        self.phase = OPENING
        self.epoch += 1
        self.out = BytesWriter()
        self.rest = b""
        self.fault = None
        self.is_congested = False
        self.blocked_reason = ""
        if self.opened.done:
            self.opened = Call("connection")
        self.reset()

    def receive(self, data: bytes, now: float) -> None:
        """Take input."""
        self.now = now
        self.heart.heard_at = now
        if self.fault is None and self.phase != ENDED:
            self.read(data)

    def take_output(self) -> bytes:
        """Return what is to be sent."""
        self.is_scheduled = False
        for receiver in self.receivers:  # Acknowledgements that they gather.
            receiver.flush()
        if len(self.out) == 0:
            return b""
        output = self.out.getvalue()
        self.out = BytesWriter()
        self.heart.sent_at = self.now
        return output

    def tick(self, now: float) -> None:
        """Do what is due."""
        self.now = now
        self.timers.run(now)

    def next_deadline(self) -> float | None:
        """Return when `tick` is due; None for never."""
        return self.timers.next()

    def congest(self, is_congested: bool) -> None:
        """Stop or continue publishers, because the transport takes no more, or does again."""
        if is_congested != self.is_congested:
            self.is_congested = is_congested
            for publisher in self.publishers:
                publisher.review()

    def break_off(self, error: ClientError) -> None:
        """Ask the shell to close the transport because of an error."""
        if self.fault is None:
            self.fault = error

    def lose(self, error: ClientError, again: bool, now: float) -> None:
        """Note that the transport is gone; with `again` the shell will try another one, else all ends."""
        self.now = now
        if self.phase == ENDED:
            return
        if not again or self.phase == CLOSING:
            self.end(error)
            return
        if self.phase == OPEN:
            self.events.append(Event(LOST, "", str(error)))
        if self.phase != IDLE:
            self.lost_at = now
        self.lost_reason = str(error)
        self.phase = IDLE
        self.blocked_reason = ""
        self.heart.stop()
        self._fail_calls(error)
        for publisher in list(self.publishers):
            publisher.lose()
        for receiver in list(self.receivers):
            receiver.lose()

    def end(self, error: ClientError) -> None:
        """End for good: every wait fails, and what is under way is unknown."""
        self.phase = ENDED
        self.heart.stop()
        self._fail_calls(error)
        code = error.code if isinstance(error, ConnectionClosed) else None
        text = error.text if isinstance(error, ConnectionClosed) else str(error)
        self.lost_reason = text
        lost = ConnectionLost(code, text)
        for publisher in list(self.publishers):
            publisher.end(lost, text)
        for receiver in list(self.receivers):
            receiver.end(lost)
        self.events.append(Event(CLOSED, "", text))

    def _fail_calls(self, error: ClientError) -> None:
        calls, self.calls = self.calls, []
        for call in calls:
            self.finish(call, error)
        self._fail_requests(error)
        self.finish(self.opened, error)

    def _fail_requests(self, error: ClientError) -> None:
        for call in self.requests.values():
            self.finish(call, error)
        self.requests.clear()

    def _refuse_server(self, start: bytes, other_version: type[ConnectError]) -> None:
        """Break off: the first octets that came are not of this protocol."""
        what = "an HTTP server" if start.startswith(b"HTTP/") else "no AMQP broker"
        kind, text = ConnectError, f"{what} answers there; check the port"
        if start.startswith(b"AMQP"):
            kind, text = other_version, f"the server there speaks another version of AMQP ({start[4:8].hex(' ')})"
        self.break_off(kind(self.terms.host, self.terms.port, text))

    def publisher(self, terms: PublisherTerms) -> PublisherCore:
        """Return a new publisher, which is attached as soon as the connection is open."""
        publisher = self.new_publisher(terms)
        self.publishers.append(publisher)
        if self.phase == OPEN:
            publisher.attach()
        return publisher

    def receiver(self, terms: ReceiverTerms) -> ReceiverCore:
        """Return a new receiver, which is attached as soon as the connection is open."""
        receiver = self.new_receiver(terms)
        self.receivers.append(receiver)
        if self.phase == OPEN:
            receiver.attach()
        return receiver

    def note_open(self) -> None:
        """Note that the login is over, and attach all publishers and receivers."""
        self.phase = OPEN
        self.lost_reason = ""
        self.tally.opened += 1
        if self.tally.opened > 1:
            self.events.append(Event(RECONNECTED, "", ""))
        self.finish(self.opened)
        for publisher in self.publishers:
            publisher.attach()
        for receiver in self.receivers:
            receiver.attach()

    def block(self, reason: str) -> None:
        """Note that the broker blocks the connection (connection.blocked), or with an empty reason that it goes on."""
        if bool(reason) != bool(self.blocked_reason):
            self.events.append(Event(BLOCKED if reason else UNBLOCKED, "", reason))
            self.blocked_at = self.now
            self.tally.blocked += 1 if reason else 0
        self.blocked_reason = reason
        for publisher in self.publishers:
            publisher.block(bool(reason))

    def forget_publisher(self, publisher: PublisherCore) -> None:
        """Forget a publisher that has ended, but for what it has counted."""
        if publisher in self.publishers:
            self.publishers.remove(publisher)
            self.tally.add_publisher(publisher.counts(), publisher.waited)
        self.timers.drop(publisher)

    def forget_receiver(self, receiver: ReceiverCore) -> None:
        """Forget a receiver that has ended, but for what it has counted."""
        if receiver in self.receivers:
            self.receivers.remove(receiver)
            self.tally.add_receiver(receiver.counts())
        self.timers.drop(receiver)

    # Requests

    def waiting(self, call: Call, timeout: float | None = None) -> Steps[Any]:
        """Wait for the answer to a request; return it."""
        limit = self.terms.call_timeout if timeout is None else timeout
        if not call.done:
            self.wake_output()
            ended = yield from self.until(call, limit)
            if not ended:
                because = f", for the broker blocks this connection: {self.blocked_reason}"
                raise Timeout(f"no answer to {call.what} within {limit:g} s{because if self.blocked_reason else ''}")
        call.check()
        return call.value

    def answering(self, call: Call, timeout: float | None = None) -> Steps[Any]:
        """Wait for the answer to a request, as `waiting` does; after a `Timeout` it may be waited for again."""
        if not call.done:
            part = call.then = Call(call.what)
            yield from self.waiting(part, timeout)
        call.check()
        return call.value

    def wake_output(self) -> None:
        """Tell the shell that there is output."""
        if not self.is_scheduled:
            self.is_scheduled = True
            self.schedule(False)

    def calling(self, name: str, arguments: dict[str, Any], timeout: float | None = None) -> Steps[Any]:
        """Declare or delete something, and wait for the answer. Raises `ValueError` for an argument of no AMQP type."""
        self.check_open()
        self.check_declares(name)
        check_arguments("the argument", arguments.get("arguments") or {}, self.protocol == "amqp10")
        return (yield from self.waiting(self.call(name, arguments), timeout))

    def request(self, operation: str, arguments: dict[str, Any] | bytes) -> Call:
        """Begin a control operation of Penstock, with fields or a block; the answer is an object or a block.

        Raises `ClientError` above 64 at a time, and at another broker than Penstock.
        """
        self.check_open()
        if not self.is_penstock():
            raise ClientError(f"{operation} is an operation of Penstock; {self.broker_name()} does not have it")
        if len(self.requests) >= REQUESTS_MAX:
            raise ClientError(f"{REQUESTS_MAX} control requests are without an answer")
        return self.ask(operation, arguments, Call(f"the control operation {operation}"))

    def ask(self, operation: str, arguments: dict[str, Any] | bytes, call: Call) -> Call:
        """Begin a control operation whose answer goes to `call`; return it."""
        self.request_number += 1
        call.number = f"{self.epoch}.{self.request_number}"
        self.requests[call.number] = call
        if isinstance(arguments, bytes):
            self.send_request(operation, BLOCK_TYPE, arguments, call.number)
        else:
            import json  # Most programs only send and receive.

            text = json.dumps(arguments, separators=(",", ":"), ensure_ascii=False)
            self.send_request(operation, JSON_TYPE, text.encode(), call.number)
        self.wake_output()
        return call

    def requesting(self, operation: str, arguments: dict[str, Any] | bytes, timeout: float | None = None) -> Steps[Any]:
        """Carry out a control operation, and wait for the answer; one that comes later is dropped."""
        call = self.request(operation, arguments)
        try:
            return (yield from self.waiting(call, timeout))
        finally:
            self.requests.pop(call.number, None)

    def answer(self, number: str | None, kind: str | None, body: bytes | bytearray) -> None:
        """Take the answer to a control request, or a note of its progress."""
        call = self.requests.get(number or "")
        if call is None:
            return
        error: ClientError | None = None
        if kind == BLOCK_TYPE:
            call.value = memoryview(body)
        elif kind != JSON_TYPE and kind != ERROR_TYPE and kind != PROGRESS_TYPE:
            error = ClientError(f"the broker answered with the content type {kind}")
        else:
            answer = _object_of(body)
            if kind == PROGRESS_TYPE:
                taken = answer.get("taken") if answer is not None else None
                call.taken = taken if isinstance(taken, int) else call.taken
                return
            if answer is None:
                error = ClientError("the broker answered with something that is no object of JSON")
            elif kind == ERROR_TYPE:
                code = answer.get("code")
                status = code if isinstance(code, int) else 0
                error = ControlError(status, str(answer.get("name")), str(answer.get("text")))
            else:
                call.value = answer
        del self.requests[call.number]
        self.finish(call, error)

    def check_open(self) -> None:
        """Raise `ConnectionLost` if no request can be sent now."""
        if self.phase != OPEN:
            raise ConnectionLost(None, self.lost_reason or "it is not open")

    def _left(self, deadline: float) -> float:
        """Return the seconds that a step of an orderly close may take."""
        return min(max(deadline - self.now, 0.0), CLOSE_WITHIN)

    def closing(self, timeout: float | None = None) -> Steps[None]:
        """Close every publisher and receiver, then the connection; one that breaks meanwhile is closed too.

        With a `timeout` in seconds all of it together takes no longer. Without one outcomes are waited for as long as
        their publishers say, and each other answer for `CLOSE_WITHIN`.
        """
        deadline = NEVER if timeout is None else self.now + timeout
        try:
            for receiver in list(self.receivers):
                yield from receiver.closing(self._left(deadline))
            for publisher in list(self.publishers):
                yield from publisher.closing(None if timeout is None else max(deadline - self.now, 0.0))
            if self.phase == OPEN:
                self.phase = CLOSING
                closed = Call("the close of a connection")
                self.calls.append(closed)
                self.write_close()
                self.wake_output()
                yield from self.until(closed, self._left(deadline))
        except ConnectionClosed:
            pass
        self.end(ConnectionClosed(None, "the client closed it"))


def _object_of(body: bytes | bytearray) -> dict[str, Any] | None:
    """Return an object of JSON; None for anything else."""
    import json

    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


class Unit:
    """Unit of work: what publishers and receivers know of their transaction, which ends with its transport at last."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.epoch: i64 = engine.epoch
        self.is_committing: bool = False
        self.error: ClientError | None = None
        """Reason for its end; None before it."""

    def is_over(self) -> bool:
        """Return whether it has ended, perhaps with its connection."""
        if self.error is None and not self.is_connected():
            self.lost()
        return self.error is not None

    def is_connected(self) -> bool:
        """Return whether the transport on which it began is there."""
        return self.epoch == self.engine.epoch and self.engine.phase == OPEN

    def check(self) -> None:
        """Raise the reason for its end."""
        if self.is_over() and self.error is not None:
            raise self.error

    def outcome(self) -> i64:
        """Return what has become of its messages, once it is over."""
        return UNKNOWN if isinstance(self.error, TransactionInDoubt) else REFUSED

    def commit(self, is_committing: bool) -> None:
        """Note that a commit begins, or that it has its answer."""
        self.is_committing = is_committing

    def end(self, error: ClientError) -> ClientError:
        """End it; return the reason, which is an earlier one if it had ended."""
        if self.error is None:
            self.error = error
        return self.error

    def lost(self) -> ClientError:
        """End it with the connection: it is rolled back, or in doubt during its commit. Returns the reason."""
        text = f"the connection was lost: {self.engine.lost_reason or 'it is closed'}"
        return self.end(TransactionInDoubt(text) if self.is_committing else TransactionAborted(text))


CLOSE_WITHIN: Final = 5.0
"""Seconds that an orderly close may take."""
