"""Connection of the client: input, output, requests and ends that both protocols share.

Theory of operation. A shell owns the transport. It calls `begin` when the transport is connected, `receive` with input,
`take_output` for output, `tick` at `next_deadline`, and `lose` after a loss. After each call it releases the waits in
`woken`, reports `events`, and closes the transport if `fault` is set. An engine outlives its transports: after `lose`
with `again`, publishers and receivers wait for the next `begin`, and attach again by themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from penstock.client.engine.events import BLOCKED, CLOSED, LOST, RECONNECTED, UNBLOCKED, Event
from penstock.client.engine.headers import check_arguments
from penstock.client.engine.outcomes import REFUSED, UNKNOWN, ConnectionLost, TransactionAborted, TransactionInDoubt
from penstock.client.engine.tally import Tally
from penstock.client.engine.terms import ConnectionTerms, PublisherTerms, ReceiverTerms
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
"""Phases of a connection: without a transport, logging in, in use, closing, and ended."""

TARGETS_MOST: Final = 64
"""Most targets that a connection calls at the same time; an idle target makes room for another."""
REQUESTS_MAX: Final = 64
"""Most control requests without an answer."""
CONTROL_EXCHANGE: Final = "penstock.control"
UPDATE_SECRET: Final = "connection.update-secret"
"""Name of the call that sends a newer token to the broker."""
JSON_TYPE: Final = "application/json"
BLOCK_TYPE: Final = "application/vnd.penstock.block"
ERROR_TYPE: Final = "application/vnd.penstock.error+json"
PROGRESS_TYPE: Final = "application/vnd.penstock.progress+json"
"""Content types of control requests and their answers; a block has the type of messages (docs/inside/blocks.md)."""
REPLY_QUEUE: Final[dict[str, object]] = {
    **dict.fromkeys(("capacity-messages", "stop-messages", "stop-bytes", "resume-messages", "resume-bytes"), "none"),
    **dict.fromkeys(("message-ttl", "expires", "consumer-window-bytes", "consumer-max-rate"), "none"),
    **dict.fromkeys(("max-length", "max-length-bytes", "slow-consumer-rate"), "none"),
    "capacity-bytes": 256 * 1024 * 1024,
    "overflow": "block",
    "consumer-window-adaptive": False,
}
"""Arguments of the queue of answers. Arguments are stronger than patterns, so that a setting of `#` cannot lock out
operators.
"""


class Heart(TimerHandler):
    """Heartbeats of a connection, both ways."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.engine = engine
        self.sends_every: float = NEVER
        """Seconds after which the client must send; infinity for never."""
        self.hears_within: float = NEVER
        """Seconds of silence after which the connection is broken."""
        self.heard_at: float = 0.0
        self.sent_at: float = 0.0

    def start(self, sends_every: float, hears_within: float) -> None:
        """Begin; 0 means none."""
        engine = self.engine
        self.sends_every = sends_every or NEVER
        self.hears_within = hears_within or NEVER
        self.heard_at = self.sent_at = engine.now
        engine.timers.drop(self)
        engine.timers.add(self, engine.now + min(self.sends_every, self.hears_within) / 2)

    def stop(self) -> None:
        """End, because there is no transport."""
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
    """Targets that a connection calls, and names of its internal queues."""

    def __init__(self) -> None:
        self.names: int = 0
        """Number of queue names used so far."""
        self.late_answers: int = 0
        """Answers that arrived after the deadline of their calls."""
        self.requesters: dict[tuple[str, str], Requester] = {}
        """Requesters by exchange and routing key, the most recently used at the end."""

    def new_name(self, engine: Engine) -> str:
        """Return a queue name that no other connection has: AMQP 1.0 lets no broker choose one."""
        self.names += 1
        return f"client-{engine.terms.producer or engine.terms.container}-{self.names}"

    def drop_answer(self) -> None:
        """Count an answer that arrived too late."""
        self.late_answers += 1

    def requester(self, engine: Engine, exchange: str, key: str) -> Requester:
        """Return the requester of a target. Raises `ClientError` when the maximum is in use."""
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
        self.absent_shards: dict[str, str] = {}
        """Shards of a node that were missing in an answer, with the last reason of each."""
        self.phase: i64 = IDLE
        self.epoch: i64 = 0
        """Number of the transport; state of an earlier transport is void."""
        self.out = BytesWriter()
        self.rest: bytes = b""
        self.events: list[Event] = []
        """Events for the shell, which logs warnings."""
        self.is_scheduled: bool = False
        """True if the shell knows that there is output."""
        self.is_congested: bool = False
        """True if the transport accepts no more output."""
        self.fault: ClientError | None = None
        """Reason to close the transport after its output."""
        self.opened = Call("connection")
        self.blocked_reason: str = ""
        """The broker's reason for blocking the connection; empty if it is not blocked."""
        self.blocked_at: float = 0.0
        self.tally = Tally()
        self.lost_at: float = 0.0
        self.lost_reason: str = ""
        self.server: dict[str, object] = {}
        """Properties announced by the broker."""
        self.delays: bool = False
        """True if the broker delivers messages after a delay."""
        self.publishers: list[PublisherCore] = []
        self.receivers: list[ReceiverCore] = []
        self.calls: list[Call] = []
        """Requests without an answer."""
        self.requests: dict[str, Call] = {}
        """Control requests without an answer, by correlation id."""
        self.request_number: int = 0
        self.heart = Heart(self)
        self.services = Services()

    # Implemented by a protocol

    def reset(self) -> None:
        """Begin with a new transport: forget the channels or sessions of the last transport, and write the first
        bytes.
        """
        raise NotImplementedError

    def read(self, data: bytes) -> None:
        """Read input, after the rest of the last input."""
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
        """Return whether a control request was written, and does not wait for the broker."""
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
        """Return the displayed name of the broker."""
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
        """Handle input."""
        self.now = now
        self.heart.heard_at = now
        if self.fault is None and self.phase != ENDED:
            self.read(data)

    def take_output(self) -> bytes:
        """Return the pending output."""
        self.is_scheduled = False
        for receiver in self.receivers:  # Acknowledgements that receivers gather.
            receiver.flush()
        if len(self.out) == 0:
            return b""
        output = self.out.getvalue()
        self.out = BytesWriter()
        self.heart.sent_at = self.now
        return output

    def tick(self, now: float) -> None:
        """Do due work."""
        self.now = now
        self.timers.run(now)

    def next_deadline(self) -> float | None:
        """Return when `tick` is due; None for never."""
        return self.timers.next()

    def congest(self, is_congested: bool) -> None:
        """Stop or resume publishers, because the transport is full, or has room again."""
        if is_congested != self.is_congested:
            self.is_congested = is_congested
            for publisher in self.publishers:
                publisher.review()

    def break_off(self, error: ClientError) -> None:
        """Make the shell close the transport because of an error."""
        if self.fault is None:
            self.fault = error

    def lose(self, error: ClientError, again: bool, now: float) -> None:
        """Handle the loss of the transport; with `again` the shell will try another, otherwise everything ends."""
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
        """End for good: every wait fails, and outcomes of messages under way are unknown."""
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
        """Break off, because the first bytes received are not of this protocol."""
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
        """Handle the end of the login: attach all publishers and receivers."""
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
        """Record that the broker blocks the connection (connection.blocked), or with an empty reason that it
        resumes.
        """
        if bool(reason) != bool(self.blocked_reason):
            self.events.append(Event(BLOCKED if reason else UNBLOCKED, "", reason))
            self.blocked_at = self.now
            self.tally.blocked += 1 if reason else 0
        self.blocked_reason = reason
        for publisher in self.publishers:
            publisher.block(bool(reason))

    def forget_publisher(self, publisher: PublisherCore) -> None:
        """Forget a publisher that has ended, except its counters."""
        if publisher in self.publishers:
            self.publishers.remove(publisher)
            self.tally.add_publisher(publisher.counts(), publisher.waited)
        self.timers.drop(publisher)

    def forget_receiver(self, receiver: ReceiverCore) -> None:
        """Forget a receiver that has ended, except its counters."""
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
        """Wait for the answer to a request, as `waiting` does; after a `Timeout` the call may be repeated."""
        if not call.done:
            part = call.then = Call(call.what)
            yield from self.waiting(part, timeout)
        call.check()
        return call.value

    def wake_output(self) -> None:
        """Notify the shell of output."""
        if not self.is_scheduled:
            self.is_scheduled = True
            self.schedule(False)

    def calling(self, name: str, arguments: dict[str, Any], timeout: float | None = None) -> Steps[Any]:
        """Declare or delete an object, and wait for the answer. Raises `ValueError` for an argument of no AMQP type."""
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
        """Begin a control operation whose answer is passed to `call`; return it."""
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
        """Carry out a control operation, and wait for the answer; a later answer is dropped."""
        call = self.request(operation, arguments)
        try:
            return (yield from self.waiting(call, timeout))
        finally:
            self.requests.pop(call.number, None)

    def answer(self, number: str | None, kind: str | None, body: bytes | bytearray) -> None:
        """Handle the answer to a control request, or a progress report."""
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
        """Return the seconds for a step of an orderly close."""
        return min(max(deadline - self.now, 0.0), CLOSE_WITHIN)

    def closing(self, timeout: float | None = None) -> Steps[None]:
        """Close every publisher and receiver, then the connection; a connection that breaks meanwhile is closed too.

        A `timeout` in seconds limits the whole close. Without one, outcomes are awaited for the time-out of their
        publishers, and each other answer for `CLOSE_WITHIN`.
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
    """Return an object of JSON; None for other values."""
    import json

    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


class Unit:
    """Unit of work: the state of a transaction shared by its publishers and receivers; it ends with its transport at
    the latest.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.epoch: i64 = engine.epoch
        self.is_committing: bool = False
        self.error: ClientError | None = None
        """Reason for the end; None before it."""

    def is_over(self) -> bool:
        """Return whether the unit has ended, possibly with its connection."""
        if self.error is None and not self.is_connected():
            self.lost()
        return self.error is not None

    def is_connected(self) -> bool:
        """Return whether the transport on which the unit began is still connected."""
        return self.epoch == self.engine.epoch and self.engine.phase == OPEN

    def check(self) -> None:
        """Raise the reason for the end."""
        if self.is_over() and self.error is not None:
            raise self.error

    def outcome(self) -> i64:
        """Return the outcome of the unit's messages, once it is over."""
        return UNKNOWN if isinstance(self.error, TransactionInDoubt) else REFUSED

    def commit(self, is_committing: bool) -> None:
        """Record that a commit begins, or that it is answered."""
        self.is_committing = is_committing

    def end(self, error: ClientError) -> ClientError:
        """End the unit; return the reason, or an earlier reason if it had ended."""
        if self.error is None:
            self.error = error
        return self.error

    def lost(self) -> ClientError:
        """End the unit with the connection: rolled back, or in doubt during its commit. Returns the reason."""
        text = f"the connection was lost: {self.engine.lost_reason or 'it is closed'}"
        return self.end(TransactionInDoubt(text) if self.is_committing else TransactionAborted(text))


CLOSE_WITHIN: Final = 5.0
"""Seconds for an orderly close."""
