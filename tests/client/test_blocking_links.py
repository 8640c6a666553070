"""Handlers with blocking calls."""

from __future__ import annotations

import pytest

import penstock
import penstock.sync
from tests.client.conversations import both_protocols, fresh, url_of


@both_protocols
def test_handler_accepts_on_return_and_releases_on_an_exception(broker_url: str, protocol: str) -> None:
    with penstock.sync.connect(url_of(broker_url, protocol)) as connection:
        queue = connection.declare_queue(fresh())
        connection.publisher(queue).send_many([b"1", b"2", b"3"])
        done: list[bytes] = []
        with connection.receiver(queue) as receiver:

            def work(message: penstock.Delivery) -> None:
                if message.body == b"2" and not message.redelivered:
                    raise ValueError("not yet")
                done.append(message.body)
                if len(done) == 3:
                    receiver.drain()

            receiver.handle(work)
            assert receiver.counters.modified == 1
            with pytest.raises(ValueError, match="on_error must be release or reject, not 'drop'"):
                receiver.handle(work, on_error="drop")
        assert sorted(done) == [b"1", b"2", b"3"]
        assert connection.why(queue).depth.messages == 0
