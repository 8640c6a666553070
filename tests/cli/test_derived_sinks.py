"""`penstock sink assign`, against a broker on a real port."""

from __future__ import annotations

from penstock.sync import connect
from tests.support.brokers import BrokerProcess
from tests.support.commands import run, told


def test_query_is_handed_over_to_another_user(broker: BrokerProcess, name: str) -> None:
    run(broker, "declare", "queue", name)
    batch = {"query": f"bills of {name}", "batch": 0, "run": "r", "write": "w", "exchange": "", "routing_key": name}
    with connect(broker.url, protocol="amqp091") as control:
        control.request("sink.begin", **{**batch, "partition": 0, "attempt": 0, "delivery": "dedup"})
    assert "no user 'etl2-" in run(broker, "sink", "assign", f"bills of {name}", f"etl2-{name}", code=1)
    run(broker, "users", "add", f"etl2-{name}", "--no-password")
    said = run(broker, "sink", "assign", f"bills of {name}", f"etl2-{name}")
    assert said == f"query bills of {name} belongs to user etl2-{name} now, at 1 target\n"
    again = told(broker, "sink", "assign", f"bills of {name}", "guest")
    assert again == {"query": f"bills of {name}", "user": "guest", "targets": 1}
    assert "no query 'none' has published batches in vhost '/'" in run(
        broker, "sink", "assign", "none", "guest", code=1
    )
