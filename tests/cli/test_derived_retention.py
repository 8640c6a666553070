"""Deletion of a queue whose settled messages are retained."""

from __future__ import annotations

from pathlib import Path

from tests.support.brokers import eventually, serving
from tests.support.commands import run, told


def test_deletion_of_a_queue_names_the_stream_that_stays(tmp_path: Path) -> None:
    with serving(tmp_path, "--data", str(tmp_path / "data")) as broker:
        run(broker, "queues", "declare", "orders", "retain-time=1h")
        run(broker, "queues", "publish", "orders", "--persistent", "one", "two")
        run(broker, "queues", "consume", "orders", "--ack", "--count", "2")
        eventually(lambda: broker.queue("orders.retained")["stream"]["next"] == 2, "both are retained")
        assert run(broker, "queues", "delete", "orders").splitlines() == [
            "queue orders is deleted with 0 messages",
            "stream orders.retained stays with 2 settled messages; "
            "`penstock queues delete orders.retained` deletes the stream",
        ]
        assert run(broker, "queues", "delete", "orders.retained").startswith("queue orders.retained is deleted")
        for name in ("plain", "plain.retained"):
            run(broker, "queues", "declare", name)
        assert run(broker, "queues", "delete", "plain") == "queue plain is deleted with 0 messages\n", "no stream"
        assert told(broker, "queues", "delete", "plain.retained") == {
            "queue": "plain.retained", "deleted": True, "messages": 0,
        }  # fmt: skip
