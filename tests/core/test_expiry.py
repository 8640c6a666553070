"""Who looks after what expires in a queue goes with the queue."""

from __future__ import annotations

import pytest

from penstock.core.message import Envelope
from tests.support.settings_bench import Bench


@pytest.mark.parametrize("arguments", [{"expires": 4_294_967_295}, {"message_ttl": 4_294_967_295}])
def test_what_comes_back_to_a_deleted_queue_leaves_no_deadline(arguments: dict[str, int]) -> None:
    bench = Bench()
    broker = bench.broker
    queue = bench.queue("q", **arguments)
    queue.enqueue(Envelope("", "q"), b"x", 300, broker.now)
    assert bench.session.get(queue, False, broker.now) is not None
    assert broker.next_deadline() is not None or "message_ttl" in arguments
    broker.delete_queue(queue)
    broker.end_session(bench.session)
    while broker.next_batch() is not None:
        pass
    assert broker.next_deadline() is None
