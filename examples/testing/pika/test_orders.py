"""An order waits at a full queue, is refused in time, or goes on when somebody works."""

import contextlib
import threading

import pika
import pika.exceptions

from penstock.testing import assert_confirmed, assert_depth_never_above, assert_held


def publish(url, outcome):
    """The program under test: it publishes an order, and waits for the confirm."""
    with contextlib.closing(pika.BlockingConnection(pika.URLParameters(url))) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        try:
            channel.basic_publish("", "full", b"an order")
            outcome.append("confirmed")
        except pika.exceptions.NackError:
            outcome.append("refused")


def test_order_is_refused_when_the_queue_stays_full(penstock_url, penstock_full_queue, penstock_clock):
    outcome = []
    publisher = threading.Thread(target=publish, args=(penstock_url, outcome))
    publisher.start()
    assert_held(penstock_full_queue)
    penstock_clock.advance(61)  # The hold deadline is 60 s; this takes some 20 ms.
    publisher.join(10)
    assert outcome == ["refused"]


def test_order_goes_on_when_somebody_works(penstock_url, penstock_full_queue, penstock_slow_consumer):
    outcome = []
    publisher = threading.Thread(target=publish, args=(penstock_url, outcome))
    publisher.start()
    assert_held(penstock_full_queue)
    penstock_slow_consumer("full", rate=100)
    publisher.join(10)
    assert outcome == ["confirmed"]
    assert_confirmed(penstock_full_queue, messages=3)
    assert_depth_never_above(penstock_full_queue, 2)
