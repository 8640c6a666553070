"""Experiments of `bench.victim` with AMQP 1.0, selectors and bindings: what clients ask for that costs much a frame."""

import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from bench.victim_clients import LIMIT_S, Act, Experiment, Place, bind, declare, exchange, publish
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, as_described, composite, encode, encode_composite
from penstock.wire.amqp10.frames import AMQP_HEADER, SASL_HEADER, frame
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import Described, Symbol, ulong
from penstock.wire.sasl import plain_response

AT_ONCE = 20
"""Connections of an experiment whose single one costs little."""
ATTACK_S = 5.0
"""Seconds for which an experiment lasts that goes on until it is stopped."""
LARGEST_FRAME = 1 << 20
SELECTOR = Symbol("apache.org:selector-filter:string")
WINDOWS: dict[str, Any] = {
    "next_incoming_id": 0, "incoming_window": 1 << 30, "next_outgoing_id": 0, "outgoing_window": 1 << 30,
}  # fmt: skip


def performative(code: int, payload: bytes = b"", channel: int = 0, **fields: Any) -> bytes:
    """Return a frame with a performative."""
    return frame(channel, encode_composite(composite(code, **fields)) + payload)


class Client10:
    """A connection over AMQP 1.0 with a session on channel 0; a thread reads, and counts what comes."""

    def __init__(self, place: Place, user: str = "guest", host: str | None = None) -> None:
        self.socket = socket.create_connection(("127.0.0.1", place.port))
        self.socket.settimeout(LIMIT_S)
        self.heard: dict[int, int] = {}
        """Frames by their performatives."""
        self.over = False
        self._came = threading.Condition()
        self._next_id = 0
        self._channel = 0
        login = composite(spec.SASL_INIT, mechanism="PLAIN", initial_response=plain_response(user, user))
        begin: dict[str, Any] = {"next_outgoing_id": 0, "incoming_window": 1 << 30, "outgoing_window": 1 << 30}
        self.send(
            SASL_HEADER + frame(0, encode_composite(login), spec.FRAME_SASL) + AMQP_HEADER
            + performative(spec.OPEN, container_id="attacker", hostname=host, max_frame_size=LARGEST_FRAME)
            + performative(spec.BEGIN, **begin)
        )  # fmt: skip
        threading.Thread(target=self._read, daemon=True).start()
        place.closers.append(self.close)
        self.wait_for(spec.BEGIN)

    def _read(self) -> None:
        data = bytearray()
        with suppress(OSError):
            while more := self.socket.recv(1 << 18):
                data += more
                self._count(data)
        with self._came:
            self.over = True
            self._came.notify_all()

    def _count(self, data: bytearray) -> None:
        """Count and remove whole frames."""
        at = 0
        with self._came:
            while len(data) - at >= 8:
                size = 8 if data[at : at + 4] == b"AMQP" else int.from_bytes(data[at : at + 4], "big")
                if len(data) - at < size:
                    break
                code = data[at + 4 * data[at + 4] + 2] if size > 10 else -1
                self.heard[code] = self.heard.get(code, 0) + 1
                at += size
            self._came.notify_all()
        del data[:at]

    def send(self, *frames: bytes) -> None:
        """Send frames; a connection that the broker has closed is no error."""
        with suppress(OSError):
            self.socket.sendall(b"".join(frames))

    def wait_for(self, code: int, count: int = 1) -> None:
        """Wait until so many of a performative have come, or the end."""
        with self._came:
            self._came.wait_for(lambda: self.over or self.heard.get(code, 0) >= count, LIMIT_S)

    def ask(self, *frames: bytes) -> None:
        """Send frames, and wait until they have been acted on: until a session that is asked for then has begun."""
        self._channel += 1
        count = self.heard.get(spec.BEGIN, 0) + 1
        begin = performative(
            spec.BEGIN, channel=self._channel, next_outgoing_id=0, incoming_window=1, outgoing_window=1
        )
        self.send(*frames, begin, performative(spec.END, channel=self._channel))
        self.wait_for(spec.BEGIN, count)

    def sender(self, target: Composite, handle: int, **fields: Any) -> bytes:
        """Return the attach of a link that sends."""
        return performative(
            spec.ATTACH, name=f"s{handle}", handle=handle, role=False, source=composite(spec.SOURCE),
            target=target, initial_delivery_count=0, **fields,
        )  # fmt: skip

    def receiver(self, queue: str, handle: int, credit: int = 0, selector: str = "") -> bytes:
        """Return the attach of a link that receives, and its credit."""
        filters = {SELECTOR: Described(SELECTOR, selector)} if selector else None
        source = composite(spec.SOURCE, address=f"/queues/{queue}", filter=filters)
        attach = performative(
            spec.ATTACH, name=f"r{handle}", handle=handle, role=True, source=source, target=composite(spec.TARGET)
        )
        return attach + (self.flow(handle, credit) if credit else b"")

    def flow(self, handle: int, credit: int, **fields: Any) -> bytes:
        """Return a flow of a link."""
        return performative(spec.FLOW, handle=handle, delivery_count=0, link_credit=credit, **WINDOWS, **fields)

    def transfer(self, handle: int, payload: bytes, **fields: Any) -> bytes:
        """Return a transfer with the next delivery-id."""
        number = self._next_id
        self._next_id += 1
        return performative(
            spec.TRANSFER, payload, handle=handle, delivery_id=number, delivery_tag=number.to_bytes(4, "big"),
            message_format=0, **fields,
        )  # fmt: skip

    def close(self) -> None:
        """Close the socket."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


def queue(name: str, **properties: Any) -> Composite:
    """Return a queue as a target."""
    return composite(spec.TARGET, address=f"/queues/{name}", **properties)


def value(content: Composite | object) -> bytes:
    """Return a message whose body is a value."""
    body = as_described(content) if isinstance(content, Composite) else content
    return encode_value(Described(ulong(spec.AMQP_VALUE), body))


def together(acts: Iterable[Callable[[], None]]) -> Act:
    """Return what does all of them at once."""
    each = list(acts)

    def act() -> None:
        threads = [threading.Thread(target=one) for one in each]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return act


def again(act: Callable[[], None]) -> Act:
    """Return what does something again and again for `ATTACK_S`."""

    def repeated() -> None:
        until = time.monotonic() + ATTACK_S
        while time.monotonic() < until:
            act()

    return repeated


def flood(clients: Sequence[Client10], *frames: bytes) -> Act:
    """Return what sends these frames on all connections, again and again."""
    return together(again(partial(client.ask, *frames)) for client in clients)


# Work that is not counted as what it costs


def like(place: Place) -> Act:
    """LIKE: publishes of 4 KB through 28 bindings with selectors."""
    place.prepare(exchange("like", "topic"), declare("liked"))
    pattern = "%" + "a%" * 20 + "b"
    place.prepare(*[bind("liked", "like", "#", n=n, **{"x-jms-selector": f"k LIKE '{pattern}{n}'"}) for n in range(28)])
    client = place.client()
    message = publish("like", "k", headers={"k": "a" * 4000})
    return again(lambda: client.ask(message * 10))


def unbind(place: Place) -> Act:
    """DELETE /bindings with a wrong hash over 20,000 bindings."""
    place.prepare(exchange("u", "direct"), declare("u"))
    for start in range(0, 20_000, 5000):
        place.prepare(*[bind("u", "u", "key", n=n) for n in range(start, start + 5000)])
    path = "/bindings/src=u;dstq=u;key=key;args=0123456789abcdef"
    clients = [_manager(place) for _ in range(4)]
    return together(again(partial(_delete, client, path)) for client in clients)


def _delete(client: Client10, path: str) -> None:
    client.ask(_request(client, "DELETE", path))


def sender_settles(place: Place) -> Act:
    """dispositions of a sender that settles, over 250 links."""
    place.prepare(declare("settled"))
    clients = [Client10(place) for _ in range(AT_ONCE)]
    for client in clients:
        client.ask(*[client.sender(queue("settled"), handle, snd_settle_mode=0) for handle in range(250)])
    return flood(clients, performative(spec.DISPOSITION, role=False, first=0, last=1 << 30, settled=True) * 5000)


def unsettled_map(place: Place) -> Act:
    """attaches with an unsettled map of 60,000 deliveries."""
    place.prepare(declare("map"))
    clients = [Client10(place) for _ in range(4)]
    unsettled = {n.to_bytes(4, "big"): None for n in range(60_000)}

    def one(client: Client10) -> Callable[[], None]:
        attach = client.sender(queue("map"), 0, unsettled=unsettled)
        return again(lambda: client.ask(attach, performative(spec.DETACH, handle=0, closed=True)))

    return together([one(client) for client in clients])


def _unsettled(place: Place, name: str, count: int) -> Client10:
    """Return a client that has so many deliveries of a queue of its own unsettled."""
    place.prepare(declare(name, **{"capacity-messages": 1_000_000}))
    place.prepare(publish("", name, b"x" * 100) * count)
    client = Client10(place)
    client.send(client.receiver(name, 0, count))
    client.wait_for(spec.TRANSFER, count)
    return client


def modified(place: Place) -> Act:
    """dispositions one by one as modified, with annotations."""
    clients = [_unsettled(place, f"modified{number}", 10_000) for number in range(8)]
    state = composite(
        spec.MODIFIED, delivery_failed=True, undeliverable_here=True,
        message_annotations={Symbol(f"x-opt-{n}"): "v" * 20 for n in range(20)},
    )  # fmt: skip
    data = b"".join(
        performative(spec.DISPOSITION, role=True, first=n, last=n, settled=True, state=state) for n in range(10_000)
    )
    return together(partial(client.ask, data) for client in clients)


def released(place: Place) -> Act:
    """dispositions one by one as released, backwards, on links with credit."""
    clients = [_unsettled(place, f"released{number}", 10_000) for number in range(8)]
    state = composite(spec.RELEASED)
    data = b"".join(
        performative(spec.DISPOSITION, role=True, first=n, last=n, settled=True, state=state)
        for n in range(9_999, -1, -1)
    )
    return together(partial(client.ask, client.flow(0, 1_000_000), data) for client in clients)


def _manager(place: Place) -> Client10:
    """Return a client of the management node, with handles 20 and 21."""
    client = Client10(place)
    pair: dict[str, Any] = {"name": "pair", "properties": {Symbol("paired"): True}, "snd_settle_mode": 1}
    node = "/management"
    client.ask(
        performative(
            spec.ATTACH, handle=20, role=False, source=composite(spec.SOURCE, address=node),
            target=composite(spec.TARGET, address=node), initial_delivery_count=0, **pair,
        ),
        performative(
            spec.ATTACH, handle=21, role=True, source=composite(spec.SOURCE, address=node),
            target=composite(spec.TARGET, address=node), **pair,
        ),
        client.flow(21, 1 << 30),
    )  # fmt: skip
    return client


def _request(client: Client10, method: str, path: str, body: object = None) -> bytes:
    """Return a request to the management node."""
    fields: dict[str, Any] = {"message_id": "1", "subject": method, "to": path, "reply_to": "$me"}
    return client.transfer(20, encode(spec.PROPERTIES, **fields) + value(body), settled=True)


def management(place: Place) -> Act:
    """a flood of requests at the management node, on 20 connections."""
    clients = [_manager(place) for _ in range(AT_ONCE)]

    def one(client: Client10, number: int) -> Callable[[], None]:
        numbers = iter(range(1 << 30))

        def act() -> None:
            frames = []
            for n in (next(numbers) for _ in range(100)):
                path = f"/queues/managed{number}.{n % 500}"
                frames += [
                    _request(client, "PUT", path, {"durable": False, "arguments": {"x-max-length": 10}}),
                    _request(client, "GET", path),
                    _request(client, "DELETE", path),
                ]
            client.ask(*frames)

        return again(act)

    return together([one(client, number) for number, client in enumerate(clients)])


def attaches(place: Place) -> Act:
    """attach and detach with selectors, on 20 connections."""
    place.prepare(declare("attached"))
    clients = [Client10(place) for _ in range(AT_ONCE)]
    words = " OR ".join(f"k{n} LIKE '%x_{n}%' AND n{n} > {n}" for n in range(10))
    detach = performative(spec.DETACH, handle=0, closed=True)
    return flood(clients, (clients[0].receiver("attached", 0, 10, words) + detach) * 200)


def transactions(place: Place) -> Act:
    """transactions opened and discharged, on 20 connections."""
    clients = [Client10(place) for _ in range(AT_ONCE)]
    coordinator = composite(spec.COORDINATOR, capabilities=["amqp:local-transactions"])
    for client in clients:
        client.ask(client.sender(coordinator, 0))

    def one(client: Client10) -> Callable[[], None]:
        def act() -> None:
            client.ask(*[client.transfer(0, value(composite(spec.DECLARE))) for _ in range(500)])

        return again(act)

    return together([one(client) for client in clients])


def retired(place: Place) -> Act:
    """dispositions in one transaction that settle the same 30,000 deliveries, and its commit."""
    client = _unsettled(place, "retired", 30_000)
    coordinator = composite(spec.COORDINATOR, capabilities=["amqp:local-transactions"])
    client.ask(client.sender(coordinator, 100), client.transfer(100, value(composite(spec.DECLARE))))
    txn_id = (1).to_bytes(8, "big")
    state = composite(spec.TRANSACTIONAL_STATE, txn_id=txn_id, outcome=composite(spec.ACCEPTED))
    settle = performative(spec.DISPOSITION, role=True, first=0, last=29_999, settled=True, state=state)
    discharge = value(composite(spec.DISCHARGE, txn_id=txn_id, fail=False))
    return lambda: client.ask(settle * 200, client.transfer(100, discharge))


def echoes(place: Place) -> Act:
    """flows that ask for an echo, on 20 connections."""
    place.prepare(declare("echoed"))
    clients = [Client10(place) for _ in range(AT_ONCE)]
    for client in clients:
        client.ask(client.receiver("echoed", 0, 1))
    return flood(clients, clients[0].flow(0, 1, echo=True) * 10_000)


def resumption(place: Place) -> Act:
    """a link with 500,000 unsettled deliveries that is suspended, and resumed, by turns."""
    place.prepare(declare("resumed", **{"capacity-bytes": 1 << 30}))
    batch = publish("", "resumed") * 5000
    for _ in range(100):
        place.prepare(batch)
    client = Client10(place)
    source = composite(spec.SOURCE, address="/queues/resumed", expiry_policy="never")
    link: dict[str, Any] = {
        "name": "r", "handle": 0, "role": True, "source": source, "target": composite(spec.TARGET),
        "properties": {Symbol("consumer-window-bytes"): -1},
    }  # fmt: skip
    client.ask(performative(spec.ATTACH, **link), client.flow(0, 500_000))
    while client.heard.get(spec.TRANSFER, 0) < 500_000:
        time.sleep(0.2)
    remembered = {number.to_bytes(8, "big"): None for number in range(1, 5000)}

    def act() -> None:
        client.ask(performative(spec.DETACH, handle=0, closed=False))
        client.ask(performative(spec.ATTACH, **link, unsettled=remembered), client.flow(0, 500_000))

    return again(act)


EXPERIMENTS: dict[str, Experiment] = {
    "like": like, "unbind": unbind, "sender-settles": sender_settles, "unsettled-map": unsettled_map,
    "modified": modified, "released": released, "management": management, "attaches": attaches,
    "transactions": transactions, "retired": retired, "echoes": echoes, "resumption": resumption,
}  # fmt: skip
