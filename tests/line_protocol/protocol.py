"""A second protocol, of lines of text: `PUT queue body`, `GET queue`, `CONSUME queue`, `BYE`.

It shows what a protocol fills in, and that nothing outside its folder is edited to add it: a broker gets it as an
argument. A publish is answered by `OK number` or `NO number reason`; a connection hears `BLOCKED reason` and `FREE`.
"""

from __future__ import annotations

import json

from penstock.connections.connection import Connection, blocking_gate
from penstock.connections.connection_state import ConnectionState
from penstock.connections.engine import Protocol, ProtocolEngine
from penstock.content.properties import Properties
from penstock.core.consume.consumer import Batch, Consumer
from penstock.core.consume.session import Session
from penstock.core.message import Message
from penstock.core.message_format import MessageFormat
from penstock.core.publish.producer import Producer
from penstock.core.publish.producer_listener import ProducerListener
from penstock.core.routing.route import Route
from penstock.errors import BrokerError, CommandInvalid
from penstock.flow.gate import Gate
from penstock.flow.level import OVERHEAD

HEADER = b"LINES/1\n"
LINE_WORK = 20


class LineFormat(MessageFormat):
    """`L`, the properties as JSON, a line feed, and the body."""

    def __init__(self) -> None:
        super().__init__("lines", b"L")

    def properties(self, content: bytes) -> Properties:
        return Properties(**json.loads(content[1:].partition(b"\n")[0]))

    def body(self, content: bytes) -> bytes:
        return content.partition(b"\n")[2]

    def encode(self, properties: Properties, body: bytes) -> bytes:
        return b"L" + json.dumps(properties.as_dict(), default=str).encode() + b"\n" + body


class LineProtocol(Protocol):
    name = "lines"

    def accepts(self, start: bytes) -> bool:
        return HEADER.startswith(start)

    def engine(self, connection: Connection) -> ProtocolEngine:
        return LineEngine(connection)

    def message_format(self) -> MessageFormat:
        return LineFormat()


class LineEngine(ProtocolEngine):
    """One client: its lines, and its only session."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.blocked = False
        self.lines: LineSession | None = None

    def read(self, data: bytes) -> int:
        connection = self.connection
        pos = 0
        if connection.state is ConnectionState.HEADER:
            pos = len(HEADER)
            connection.user = "guest"
            connection.move(ConnectionState.START)
            connection.login.start(connection, self.services.password_check("guest", "guest", connection.peer.loopback))
        while (end := data.find(b"\n", pos)) >= 0 and not connection.ignores_input():
            if self.work.used_up() or connection.busy > 0:
                connection.input_paused = True
                return pos
            line, pos = data[pos:end], end + 1
            self.work.done += LINE_WORK
            assert self.lines is not None
            self.lines.on_line(line.decode())
        return pos

    def write(self, line: str) -> None:
        self.connection.output.buffer.write(line.encode() + b"\n")
        self.connection.request_flush()

    def sessions(self) -> list[Session]:
        return [] if self.lines is None else [self.lines]

    def session(self, number: int) -> Session | None:
        return self.lines if number == 1 else None

    def end_session(self, session: Session, graceful: bool) -> None:
        for producer in session.producers():
            producer.close_gracefully() if graceful else producer.abort(self.connection.losses.cause)
        self.lines = None

    def close(self, error: BrokerError) -> None:
        if self.connection.start_closing(str(error), error):
            self.write(f"ERROR {error.condition} {error}")
            self.connection.end()

    def on_login(self, accepted: bool) -> None:
        if accepted:
            self.connection.open(self.connection.broker.vhost("/"))
            self.lines = LineSession(self)
        else:
            self.connection.end()

    def answer_close(self) -> None:
        self.write("BYE")

    def update_blocked(self) -> None:
        connection = self.connection
        if self.blocked != (connection.reported_blocks > 0):
            self.blocked = not self.blocked
            gate = blocking_gate(connection, None)
            self.write("FREE" if gate is None else f"BLOCKED {connection.services.block_reason(connection, gate)}")

    def details(self) -> dict[str, object]:
        return {"protocol": LineProtocol.name}


class LineSession(Session):
    """The session of one client, which publishes and consumes."""

    def __init__(self, engine: LineEngine) -> None:
        connection = engine.connection
        super().__init__(connection.output, f"{connection.name()}/lines", connection.number)
        self.number = 1
        self.engine = engine
        self.broker = connection.broker
        self.format = self.broker.formats.by_octet(ord("L"))
        self.producer = Producer(
            self.broker, self.name, connection.pausing.budget, connection.origin, LineListener(self, connection)
        )
        self.producer.confirming = True

    def on_line(self, line: str) -> None:
        verb, _, rest = line.partition(" ")
        name, _, body = rest.partition(" ")
        vhost = self.engine.connection.vhost
        assert vhost is not None
        try:
            if verb == "PUT":
                route = vhost.route("", name, True)
                vhost.resolve(route, {})
                content = self.format.encode(
                    Properties(message_id=str(self.producer.confirms.published)), body.encode()
                )
                self.producer.publish(route, content, self.format.charge(content) + OVERHEAD)
            elif verb == "GET":
                batch = self.get(vhost.queue(name, self.engine.connection), True, self.broker.now)
                self.engine.write("EMPTY") if batch is None else self.deliver(batch)
            elif verb == "CONSUME":
                queue = vhost.queue(name, self.engine.connection)
                self.broker.consume(self, Consumer(name, self, queue, True, False, 0))
            elif verb == "BYE":
                self.engine.connection.on_client_close()
            else:
                raise CommandInvalid(f"unknown verb '{verb}'")
        except BrokerError as error:
            self.fail(error)

    def producers(self) -> list[Producer]:
        return [self.producer]

    def receiving(self) -> bool:
        return self.delivering and self.engine.connection.output.writable

    def deliver(self, batch: Batch) -> None:
        for message in batch.messages:
            if isinstance(message, Message):
                content = self.broker.formats.convert(message.content, self.format)
                self.engine.write(f"MESSAGE {message.envelope.routing_key} {self.format.body(content).decode()}")
        if batch.waits_for_disk:
            self.engine.connection.output.await_deliveries()

    def fail(self, error: BrokerError) -> None:
        self.engine.write(f"ERROR {error.condition} {error}")


class LineListener(ProducerListener):
    """The publishing side of one client."""

    def __init__(self, session: LineSession, connection: Connection) -> None:
        super().__init__(connection.number)
        self.session = session
        self.connection = connection

    def on_confirms(self) -> None:
        for outcome in self.session.producer.confirms.take():
            for number in range(outcome.first, outcome.last + 1):
                refused = "" if outcome.refusal is None else outcome.refusal.describe()
                self.session.engine.write(f"OK {number}" if outcome.confirmed else f"NO {number} {refused}")

    def on_returned(self, route: Route, content: bytes, refused: BrokerError | None) -> None:
        if refused is None:
            self.session.engine.write(f"UNROUTABLE {route.envelope.routing_key}")

    def on_closed(self, error: BrokerError) -> None:
        self.session.fail(error)

    def on_blocked(self, gate: Gate) -> bool:
        self.connection.count_block(gate, 1)
        return True

    def on_unblocked(self, gate: Gate) -> bool:
        self.connection.count_block(gate, -1)
        return True
