"""Producers that two queues and a fan-out to both block, and the log lines about them."""

from __future__ import annotations

from collections import defaultdict

from penstock.content.properties import Properties
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import frame, method_frame
from penstock.wire.amqp091.content_header import encode_header
from tests.support.driven_connection import Dialogue, make_driver, publish
from tests.support.log_lines import texts

GATED = {"capacity_messages": 5, "stop_messages": 3, "resume_messages": 1}
QUEUES = ("orders", "audit")
TO_BOTH = (
    method_frame(1, spec.BASIC_PUBLISH, exchange="amq.fanout")
    + frame(spec.FRAME_HEADER, 1, encode_header(1, Properties()))
    + frame(spec.FRAME_BODY, 1, b"x")
)
CHANNEL = r"con:\d+\(guest@127\.0\.0\.1:1/\)/ch:1"


class BlockedProducers:
    """Three producers, two queues and a fan-out to both; every logged line, in order."""

    def __init__(self) -> None:
        self.driver = make_driver()
        self.now = 0.0
        self.user = Dialogue(self.driver)
        self.producers = [self.join(), self.join(), self.join()]
        self.crossings: dict[str, int] = defaultdict(int)
        for queue in QUEUES:
            self.declare(queue)
        self.lines: list[str] = []

    def join(self) -> Dialogue:
        peer = Dialogue(self.driver)
        peer.confirm()
        return peer

    def declare(self, queue: str) -> None:
        self.user.declare(queue, **GATED)
        self.user.say(method_frame(1, spec.QUEUE_BIND, queue=queue, exchange="amq.fanout"))

    def do(self, what: str, number: int, where: str) -> None:
        if what == "publish":
            self.producers[number].say(TO_BOTH if where == "both" else publish(where, b"x"))
        elif what == "wait":
            self.now += 10 * number
            self.user.listen(self.now)
        elif what == "leave":
            self.driver.disconnect(self.producers[number].connection)
            self.producers[number] = self.join()
        else:
            for queue in QUEUES if where == "both" else (where,):
                self._empty(what, number, queue)
        self.user.listen()
        self.lines += texts(self.driver.log_queue)

    def _empty(self, what: str, number: int, queue: str) -> None:
        if what == "get":
            for _ in range(number + 1):
                self.user.say(method_frame(1, spec.BASIC_GET, queue=queue, no_ack=True))
        elif what == "purge":
            self.user.say(method_frame(1, spec.QUEUE_PURGE, queue=queue))
        else:
            self.crossings[queue] += self.closings(queue)
            self.user.say(method_frame(1, spec.QUEUE_DELETE, queue=queue))
            self.declare(queue)

    def closings(self, queue: str) -> int:
        return self.driver.broker.vhosts["/"].queues[queue].gate.stats.transitions
