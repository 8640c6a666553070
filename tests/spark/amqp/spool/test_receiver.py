"""Receiver of a spool, with a real broker."""

from __future__ import annotations

import select

from pyspark_amqp.options import amqp_options
from pyspark_amqp.spool.receiver import Receiver
from tests.support.spark_readers import numbered


def test_queue_is_not_empty_while_messages_that_came_are_not_taken(broker, queue, tmp_path):
    given = {"servers": broker.address, "protocol": broker.protocol, "subscribe": queue, "spool": str(tmp_path)}
    settings = amqp_options(given | {"prefetch": "100"}).settings
    receiver = Receiver(settings, settings.servers[0])
    receiver.open()
    broker.publish(queue, numbered(0, 5))
    receiver.resume()
    came: list[bytes] = []
    while len(came) < 5:
        while receiver.beat() > 0:  # It reads too, as every request does.
            assert select.select([receiver.fileno()], [], [], 30)[0]
        assert not receiver.is_empty()
        came += [delivery.body for _, delivery in receiver.take(100)]
    assert came == numbered(0, 5)
    assert receiver.is_empty()
    receiver.close()
