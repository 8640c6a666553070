"""Lost acknowledgements: a message with an id does not come twice."""

from __future__ import annotations

import os
import signal

from tests.spark.amqp.conftest import by_each_protocol, read_until
from tests.support.brokers import eventually
from tests.support.spark_readers import ALL, numbered
from tests.support.tcp_proxy import proxied


def queue_of_twenty(broker):
    """Declare a queue and publish twenty messages with ids; return its name."""
    queue = broker.declare()
    for number in range(20):
        broker.publish(queue, [b"%d" % number], message_id=str(number))
    return queue


@by_each_protocol
def test_lost_acknowledgement_repeats_no_message_with_an_id(broker, reader_of):
    queue = queue_of_twenty(broker)
    with proxied(broker.address) as proxy:
        reader = reader_of(broker, queue, servers=proxy.address)
        read, end = read_until(reader, reader.initialOffset(), 20)
        proxy.loses_request = True
        assert reader.latestOffset(end, ALL) == end
        broker.await_ready(queue, 0)
        eventually(lambda: proxy.accepted > 1 and not proxy.loses_request, "the connection was lost and made again")
        broker.publish(queue, [b"news"])
        assert read + read_until(reader, end, 1)[0] == [*numbered(0, 20), b"news"]
        reader.stop()


def test_message_with_an_id_does_not_come_twice_after_a_lost_acknowledgement(broker, reader_of, tmp_path):
    queue = queue_of_twenty(broker)
    with proxied(broker.address) as proxy:
        reader = reader_of(broker, queue, servers=proxy.address)
        read, end = read_until(reader, reader.initialOffset(), 20)
        proxy.swallows = True  # The acknowledgement is sent, and does not arrive.
        assert reader.latestOffset(end, ALL) == end
        settled = ["00000000000000000021.segment"]
        eventually(lambda: [path.name for path in (tmp_path / "spool").glob("*.segment")] == settled, "all are deleted")
        proxy.down = True
        broker.kill()
        os.kill(reader._process.pid, signal.SIGKILL)
        broker.start()
        proxy.swallows = proxy.down = False
        broker.publish(queue, [b"news"])
        rest, last = read_until(reader, end, 1)
        assert read + rest == [*numbered(0, 20), b"news"]
        assert reader.latestOffset(last, ALL) == last
        broker.await_ready(queue, 0)
        reader.stop()
