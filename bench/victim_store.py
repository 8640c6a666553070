"""Experiments of `bench.victim` on the way to the disk; the victim's messages are persistent and confirmed."""

import threading

from bench.victim_clients import Act, Experiment, Place, publish
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame

SECONDS = 4.0
BATCH = 50


def _durable(queue: str, **arguments: object) -> bytes:
    return method_frame(1, spec.QUEUE_DECLARE, queue=queue, durable=True, arguments=arguments, no_wait=True)


def _for_a_while(sends: list[Act]) -> Act:
    """Return an act that repeats each of these in a thread of its own, for some seconds."""

    def act() -> None:
        over = threading.Event()

        def repeat(send: Act) -> None:
            while not over.is_set():
                send()

        threads = [threading.Thread(target=repeat, args=(send,)) for send in sends]
        for thread in threads:
            thread.start()
        over.wait(SECONDS)
        over.set()
        for thread in threads:
            thread.join()

    return act


def ring_writes(place: Place) -> Act:
    """persistent messages of 300,000 octets to rings of five, by three connections."""
    names = [f"ring{number}" for number in range(3)]
    place.prepare(*[_durable(name, **{"x-max-length": 5}) for name in names])
    sends: list[Act] = []
    for name in names:
        client, message = place.client(), publish("", name, b"z" * 300_000, delivery_mode=2)
        sends.append(lambda client=client, message=message: client.send(message))  # type: ignore[misc]
    return _for_a_while(sends)


def changes(place: Place) -> Act:
    """durable queues are declared, bound and deleted without waiting."""
    client = place.client()
    count = 0

    def send() -> None:
        nonlocal count
        frames = []
        for number in range(count, count + BATCH):
            bound = {"queue": f"d{number}", "exchange": "amq.topic", "routing_key": f"k{number}", "no_wait": True}
            frames += [
                _durable(f"d{number}"),
                method_frame(1, spec.QUEUE_BIND, **bound),
                method_frame(1, spec.QUEUE_DELETE, queue=f"d{number}", no_wait=True),
            ]
        count += BATCH
        client.send(b"".join(frames))

    return _for_a_while([send])


EXPERIMENTS: dict[str, Experiment] = {"ring-writes": ring_writes, "changes": changes}
