"""Commands of an operator, against a broker on a real port."""

from __future__ import annotations

from pathlib import Path

from tests.support.brokers import BrokerProcess, serving
from tests.support.commands import refused, run, told


def test_status_tells_how_full_queues_are_and_leaves_its_own_out(own_broker: BrokerProcess) -> None:
    run(own_broker, "declare", "queue", "orders", "capacity-messages=9", "capacity-bytes=1000")
    run(own_broker, "declare", "queue", "free", "capacity-bytes=none")
    run(own_broker, "publish", "orders", "one", "two")
    lines = run(own_broker, "status").splitlines()
    assert "orders: 2 messages, 490 bytes of 9 messages and 1,000 bytes (49 % full), gate open, " in "\n".join(lines)
    free = "free: 0 messages, 0 bytes of no limit, gate open, 0 producers blocked, 0 consumers, in 0.0/s, out 0.0/s"
    assert free in lines
    assert not any("amq.gen" in line or "more queue" in line for line in lines)
    answer = told(own_broker, "status")
    assert [(each["queue"], each["fill_percent"]) for each in answer["queues"]] == [("orders", 49.0), ("free", None)]
    assert (answer["queue_count"], answer["vhost"]) == (2, "/")


def test_why_and_status_end_in_one_sentence_when_they_cannot_answer(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        assert refused("why", "no-such-queue", "--url", broker.url).startswith("no queue 'no-such-queue' in vhost '/'")
        address = broker.addresses[0]
    assert str(address.rpartition(":")[2]) in refused("status", "--url", address)
