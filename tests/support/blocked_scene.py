"""A broker on which somebody is blocked, and what `penstock why` says of it."""

from __future__ import annotations

import json
from typing import Any

from penstock.content.properties import Properties
from penstock.driver.driver import BrokerDriver
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.amqp091_frames import body_of
from tests.support.driven_connection import Dialogue, make_driver, publish

GATED = {"capacity_messages": 10, "stop_messages": 3, "resume_messages": 1}


class Scene:
    """One broker from second 100 on, and who is connected: each with channel 1."""

    def __init__(self) -> None:
        self.driver = make_driver()
        self.at(100.0)

    def at(self, now: float) -> None:
        """Let time pass."""
        self.driver.begin(now)
        while self.driver.run_turn():
            pass

    def join(self, confirms: bool = True) -> Dialogue:
        peer = Dialogue(self.driver)
        if confirms:
            peer.confirm()
        return peer

    def filled(self, queue: str = "orders", messages: int = 4) -> Dialogue:
        """Return a producer that has published so many messages to a queue whose gate the fourth closes."""
        producer = self.join()
        producer.declare(queue, **GATED)
        for _ in range(messages):
            producer.say(publish(queue, b"order"))
        return producer

    def ask(self, **subject: str) -> list[str]:
        return list(asked(self.driver, **subject)["sentences"])

    def advice(self) -> list[str]:
        return [sentence for sentence in self.ask() if sentence.startswith("advice")]

    def control(self, operation: str, **fields: object) -> None:
        """Ask for an operation without waiting for its answer."""
        asker = Dialogue(self.driver)
        asker.say(publish(operation, json.dumps(fields).encode(), exchange="penstock.control"))
        self.driver.disconnect(asker.connection)


def asked(driver: BrokerDriver, **subject: str) -> dict[str, Any]:
    """Ask `why` as any client may, and return the answer, which is left in the reply queue."""
    asker = Dialogue(driver)
    asker.declare("replies")
    properties = Properties(reply_to="replies", correlation_id="1")
    asker.say(publish("why", json.dumps(subject).encode(), properties=properties, exchange="penstock.control"))
    frames = asker.say(method_frame(1, spec.BASIC_GET, queue="replies", no_ack=True))
    answer: dict[str, Any] = json.loads(body_of(frames))
    asker.say(method_frame(1, spec.QUEUE_DELETE, queue="replies"))
    driver.disconnect(asker.connection)
    return answer
