"""Connections whose input takes more than its share of a turn."""

from __future__ import annotations

import json

from penstock.content.properties import Properties
from penstock.driver.driver import BrokerDriver
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import frame, method_frame
from penstock.wire.amqp091.content_header import encode_header


def declarations(count: int, name: str) -> bytes:
    return b"".join(method_frame(1, spec.QUEUE_DECLARE, queue=f"{name}{n}", no_wait=True) for n in range(count))


def turn(driver: BrokerDriver) -> int:
    """Make a turn as the event loop does; returns the units of work that clients' input took."""
    before = driver.broker.work.done
    driver.scheduler.serve()
    took = driver.broker.work.done - before
    driver.run_turn()
    driver.scheduler.begin_turn()
    return int(took)


def request(operation: str, **fields: object) -> bytes:
    body = json.dumps(fields).encode()
    out = method_frame(1, spec.BASIC_PUBLISH, exchange="penstock.control", routing_key=operation)
    return out + frame(spec.FRAME_HEADER, 1, encode_header(len(body), Properties())) + frame(spec.FRAME_BODY, 1, body)
