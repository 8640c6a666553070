"""The contract with blocking calls: a publisher that waits, says why, fails in time, and goes on as before."""

from __future__ import annotations

import pytest

import penstock
import penstock.sync
from tests.client.conversations import CONTRACT_OPTIONS, FIRST_WORDS, both_protocols, check_contract, fresh, url_of


@both_protocols
def test_contract_runs_with_blocking_calls(broker_url: str, protocol: str, caplog: pytest.LogCaptureFixture) -> None:
    queue = fresh("orders")
    sent = came = 0
    with penstock.sync.connect(url_of(broker_url, protocol, **CONTRACT_OPTIONS)) as connection:
        connection.declare_queue(queue, capacity_messages=2, hold_deadline=60)
        publisher = connection.publisher(queue, window=1)
        with pytest.raises(penstock.FlowControlTimeout) as failure:  # noqa: PT012 - this is the contract's text.
            for _ in range(10):
                publisher.send(b"order")
                sent += 1
        with connection.receiver(queue) as receiver:
            while (message := receiver.receive(timeout=0.5)) is not None:
                assert message.body == b"order"
                came += 1
                message.accept()
        check_contract(failure.value, queue, sent, came)
        assert publisher.send(b"again").state == "confirmed"
        assert connection.delete_queue(queue) == 1
    assert any(record.getMessage().startswith(FIRST_WORDS) for record in caplog.records)
