"""As hotpath.py, over AMQP 1.0: `python -m bench.hotpath10 N STEP...`.

All input is built beforehand, since each message has a delivery-id of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from bench import hotpath
from bench.hotpath import BATCH, BODY, BODY_OCTETS, CAPACITY, MESSAGE, PREPARED, PUBLISH, QUEUE, Bench, mark, take_steps
from penstock.connections.connection import Connection
from penstock.connections.peer import Peer
from penstock.content.properties import Properties
from penstock.core.journal.journal import Journal
from penstock.wire.amqp091 import spec as spec091
from penstock.wire.amqp091.codec import frame as frame091
from penstock.wire.amqp091.content_header import encode_header
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite, encode_composite
from penstock.wire.amqp10.frames import AMQP_HEADER, SASL_HEADER, frame
from penstock.wire.sasl import plain_response

PRIMER = 50
"""Messages sent first: the first credit of a link is small, and grows when half of it is used."""
CREDIT = 1000
"""Link credit of the consumer, renewed when half of it is used."""
WINDOW = 0x7FFFFFFF
DATA = b"\x00\x53\x75\xa0" + bytes([BODY_OCTETS]) + bytes(BODY_OCTETS)
DURABLE = b"\x00\x53\x70\xc0\x02\x01\x41"
"""Header of a durable message."""


def performative(code: int, **fields: object) -> bytes:
    """Return a frame with a performative on channel 0."""
    return frame(0, encode_composite(composite(code, **fields)))


def identified(number: int) -> bytes:
    """Return the properties of a message with an id of its own."""
    return b"\x00\x53\x73\xc0\x0d\x01\xa1\x0a" + b"%010d" % number


def message091(number: int) -> bytes:
    """Return a publish of AMQP 0-9-1 with an id of its own and a header."""
    properties = Properties(delivery_mode=1, message_id=f"{number:010}", headers={"number": number})
    return PUBLISH + frame091(2, 1, encode_header(BODY_OCTETS, properties)) + BODY


def transfer(number: int, settled: bool, before: bytes = b"") -> bytes:
    """Return a transfer as most clients write it: small handle, id of four octets, short tag; `before` are sections."""
    fields = b"\x43\x70" + number.to_bytes(4, "big") + b"\xa0\x04" + number.to_bytes(4, "big") + b"\x43"
    fields += b"\x41" if settled else b"\x42"
    return frame(0, b"\x00\x53\x14\xc0" + bytes([len(fields) + 1, 5]) + fields + before + DATA)


def batches(settled: bool, before: Callable[[int], bytes]) -> list[bytes]:
    """Return the input of all messages after the primer, in reads of a hundred."""
    return [
        b"".join(transfer(number, settled, before(number)) for number in range(at, at + BATCH))
        for at in range(PRIMER, PRIMER + PREPARED, BATCH)
    ]


def sender_attach(handle: int) -> bytes:
    """Return the attach of a sender to the queue."""
    source, target = composite(spec.SOURCE), composite(spec.TARGET, address=QUEUE)
    return performative(
        spec.ATTACH,
        name=f"s{handle}",
        handle=handle,
        role=False,
        source=source,
        target=target,
        initial_delivery_count=0,
    )


def receiver_attach(handle: int, settled: bool = False) -> bytes:
    """Return the attach of a receiver from the queue."""
    source, target = composite(spec.SOURCE, address=QUEUE), composite(spec.TARGET)
    mode = 1 if settled else 0
    return performative(
        spec.ATTACH, name=f"r{handle}", handle=handle, role=True, snd_settle_mode=mode, source=source, target=target
    )


@dataclass
class Bench10(Bench):
    """A broker with one sender's and one receiver's connection, and a queue."""

    settled: bool = False
    """True if messages are sent and delivered settled."""
    inputs: list[bytes] = field(default_factory=list)
    answers: list[bytes] = field(default_factory=list)
    """What the receiver sends after each hundred deliveries."""
    before: Callable[[int], bytes] = lambda number: b""
    """The sections of a message before its body."""
    fed: int = 0

    def __post_init__(self) -> None:
        """Log both connections in and attach the sender."""
        self.publisher = self.connect()
        self.consumer = self.connect()
        vhost = self.driver.broker.vhosts["/"]
        vhost.declare_queue(QUEUE, {"capacity-bytes": CAPACITY}, False, False, None, None)

    def connect(self) -> Connection:
        """Open a connection with a session."""
        connection = self.driver.connect(Peer("127.0.0.1:1", True))
        init = composite(spec.SASL_INIT, mechanism="PLAIN", initial_response=plain_response("guest", "guest"))
        self.feed(connection, SASL_HEADER + frame(0, encode_composite(init), spec.FRAME_SASL))
        self.feed(connection, AMQP_HEADER)
        begin = performative(spec.BEGIN, next_outgoing_id=0, incoming_window=WINDOW, outgoing_window=WINDOW)
        self.feed(connection, performative(spec.OPEN, container_id="guard") + begin)
        return connection

    def connect091(self) -> Connection:
        """Open a connection of AMQP 0-9-1, with a channel."""
        return super().connect()

    def attach_sender(self) -> None:
        """Attach the sender and use its first credit."""
        self.inputs = batches(self.settled, self.before)
        self.answers = [self.answer(first) for first in range(0, PREPARED, BATCH)]
        self.feed(self.publisher, sender_attach(0))
        self.feed(
            self.publisher, b"".join(transfer(number, self.settled, self.before(number)) for number in range(PRIMER))
        )

    def publish(self, messages: int) -> None:
        """Send in reads of a hundred."""
        for _ in range(messages // BATCH):
            self.feed(self.publisher, self.inputs[self.fed])
            self.fed += 1

    def keep(self, **more: object) -> None:
        """Make the queue a durable one of a broker with a store, and send durable messages from now on."""
        broker = self.driver.broker
        broker.journal = Journal(broker.durable_changes, broker.gates.disk)
        vhost = broker.vhosts["/"]
        vhost.delete_queue(self.queue, broker.now)
        arguments: dict[str, object] = {"capacity-bytes": CAPACITY}
        arguments |= {name.replace("_", "-"): value for name, value in more.items()}
        vhost.declare_queue(QUEUE, arguments, True, False, None, None)
        self.before = lambda number: DURABLE
        self.keeps = True

    def attach_receiver(self) -> None:
        """Attach the receiver, without credit."""
        self.feed(self.consumer, receiver_attach(0, self.settled))

    def flow(self, seen: int, credit: int) -> bytes:
        """Return a flow of the receiver, after so many deliveries."""
        return performative(
            spec.FLOW,
            next_incoming_id=seen,
            incoming_window=WINDOW,
            next_outgoing_id=0,
            outgoing_window=WINDOW,
            handle=0,
            delivery_count=seen,
            link_credit=credit,
        )

    def deliver(self, messages: int) -> None:
        """Attach a receiver with credit for so many messages, which are then delivered."""
        self.attach_receiver()
        self.feed(self.consumer, self.flow(0, messages))
        self.delivered += messages

    def answer(self, first: int) -> bytes:
        """Return the disposition of a hundred deliveries, unless they were settled; each fifth renews the credit."""
        seen = first + BATCH
        flow = self.flow(seen, CREDIT) if seen % (CREDIT // 2) == 0 else b""
        if self.settled:
            return flow
        accepted = composite(spec.ACCEPTED)
        return (
            performative(spec.DISPOSITION, role=True, first=first, last=seen - 1, settled=True, state=accepted) + flow
        )

    def acknowledge(self, messages: int) -> None:
        """Accept in ranges of a hundred."""
        for _ in range(messages // BATCH):
            answer = self.answers[self.acknowledged // BATCH]
            self.acknowledged += BATCH
            if answer:
                self.feed(self.consumer, answer)


def publish10(bench: Bench10, messages: int) -> None:
    """Take settled transfers from the wire into a queue without a consumer (AMQP 1.0)."""
    bench.settled = True
    confirm10(bench, messages)


def confirm10(bench: Bench10, messages: int) -> None:
    """As `publish10`, unsettled, with the dispositions."""
    bench.attach_sender()
    mark()
    bench.publish(messages)


def deliver10(bench: Bench10, messages: int) -> None:
    """Write waiting messages as transfers to a receiver that settles (AMQP 1.0)."""
    bench.attach_sender()
    bench.publish(PREPARED)
    mark()
    bench.deliver(messages)


def ack10(bench: Bench10, messages: int) -> None:
    """Settle delivered messages by dispositions of a hundred."""
    bench.attach_sender()
    bench.publish(PREPARED)
    bench.deliver(PREPARED)
    mark()
    bench.acknowledge(messages)


def through10(bench: Bench10, messages: int) -> None:
    """Take, deliver and settle, unsettled on both sides, a hundred messages at a time (AMQP 1.0)."""
    bench.attach_sender()
    bench.attach_receiver()
    bench.feed(bench.consumer, bench.flow(0, CREDIT))
    mark()
    for _ in range(messages // BATCH):
        bench.publish(BATCH)
        bench.acknowledge(BATCH)


def settled10(bench: Bench10, messages: int) -> None:
    """As `through10`, settled on both sides."""
    bench.settled = True
    through10(bench, messages)


def stored10(bench: Bench10, messages: int) -> None:
    """As `through10`, but durable, and encoded for the store: all but the disk."""
    bench.keep()
    through10(bench, messages)


def to10(bench: Bench10, messages: int) -> None:
    """Take publishes of AMQP 0-9-1, deliver and settle them over AMQP 1.0, a hundred at a time."""
    publish_to10(bench, [MESSAGE * BATCH] * (messages // BATCH))


def publish_to10(bench: Bench10, inputs: list[bytes]) -> None:
    """Take publishes of AMQP 0-9-1 in reads of a hundred, deliver and settle them over AMQP 1.0."""
    publisher = bench.connect091()
    bench.answers = [bench.answer(first) for first in range(0, PREPARED, BATCH)]
    bench.attach_receiver()
    bench.feed(bench.consumer, bench.flow(0, CREDIT))
    mark()
    for each in inputs:
        bench.feed(publisher, each)
        bench.acknowledge(BATCH)


def from10(bench: Bench10, messages: int) -> None:
    """Take transfers, deliver and acknowledge them over AMQP 0-9-1, a hundred at a time."""
    consumer = bench.connect091()
    bench.call(consumer, spec091.BASIC_QOS, prefetch_count=CREDIT)
    bench.call(consumer, spec091.BASIC_CONSUME, queue=QUEUE, consumer_tag="c")
    bench.attach_sender()
    mark()
    for _ in range(messages // BATCH):
        bench.publish(BATCH)
        bench.acknowledged += BATCH
        bench.call(consumer, spec091.BASIC_ACK, delivery_tag=bench.acknowledged, multiple=True)


def from10_ids(bench: Bench10, messages: int) -> None:
    """As `from10`, with an id in each message."""
    bench.before = identified
    from10(bench, messages)


def to10_ids(bench: Bench10, messages: int) -> None:
    """As `to10`, with an id and a header in each message."""
    publish_to10(
        bench, [b"".join(message091(at + number) for number in range(BATCH)) for at in range(0, messages, BATCH)]
    )


STEPS: dict[str, Callable[[Bench10, int], None]] = {
    step.__name__: step
    for step in (
        publish10,
        confirm10,
        deliver10,
        ack10,
        through10,
        settled10,
        stored10,
        to10,
        from10,
        to10_ids,
        from10_ids,
    )
}


def check(step: str, bench: Bench10, messages: int) -> None:
    """Fail unless exactly that has happened which the step is about."""
    primer = 0 if step in ("to10", "to10_ids") else PRIMER
    published = primer + (PREPARED if step in ("deliver10", "ack10") else messages)
    delivered = {"deliver10": messages, "ack10": PREPARED}.get(step, 0)
    settled = {"ack10": messages}.get(step, 0)
    if step in ("through10", "settled10", "stored10", "to10", "from10", "to10_ids", "from10_ids"):
        delivered = published
        settled = published if bench.settled else messages
    queue = bench.queue
    found = (int(queue.tail), int(queue.messages), int(queue.unacked_messages))
    if found != (published, published - settled, delivered - settled):
        raise AssertionError(f"{step} of {messages}: sequence, depth and unacknowledged are {found}")


def main() -> None:
    """Take some steps of either protocol and end; see `hotpath.take_steps`."""
    older = {name: (Bench, step, hotpath.check) for name, step in hotpath.STEPS.items()}
    take_steps({**older, **{name: (Bench10, step, check) for name, step in STEPS.items()}})


if __name__ == "__main__":
    main()
