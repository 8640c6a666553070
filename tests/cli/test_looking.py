"""Commands of an operator, against a broker on a real port."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.brokers import BrokerProcess, serving
from tests.support.commands import refused, run, told
from tests.support.raw_channel import Connection


def test_status_omits_its_own_queue(own_broker: BrokerProcess) -> None:
    run(own_broker, "declare", "queue", "orders", "capacity-messages=9", "capacity-bytes=1000")
    run(own_broker, "declare", "queue", "free", "capacity-bytes=none")
    run(own_broker, "publish", "orders", "one", "two")
    assert "amq.gen" not in run(own_broker, "status")
    answer = told(own_broker, "status")
    assert [(each["queue"], each["fill_percent"]) for each in answer["queues"]] == [("orders", 49.0), ("free", None)]
    assert (answer["queue_count"], answer["vhost"]) == (2, "/")


def test_why_and_status_end_in_one_sentence_on_failure(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        assert refused("why", "no-such-queue", "--url", broker.url).startswith("no queue 'no-such-queue' in vhost '/'")
        address = broker.addresses[0]
    assert str(address.rpartition(":")[2]) in refused("status", "--url", address)


def test_set_names_the_stronger_source_and_an_override_counts_over_a_restart(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(tmp_path, "--data", str(data)) as broker:
        run(broker, "declare", "queue", "orders", "--durable", "capacity-messages=10")
        run(broker, "declare", "queue", "bills", "capacity-messages=7")
        hidden = run(broker, "set", "queue", "orders", "capacity-messages=1000", code=1)
        assert hidden == (
            "capacity-messages=1000 has no effect on queue orders: argument capacity-messages=10 is stronger; "
            "`set --override` is stronger than all\n"
        )
        assert _shown(broker, "orders", "capacity-messages") == (10, "argument capacity-messages=10")
        told_so = run(broker, "set", "queue", "orders", "capacity-messages=1000", "--override")
        assert told_so.splitlines()[1:] == [
            "queue 'orders' matches orders",
            "overflow changes for queue orders: holds publishers at 1,000 messages; before: holds publishers at 10 "
            "messages",
        ]
        raised = (1000, "pattern 'orders' of vhost '/', set by override: capacity-messages=1000")
        assert _shown(broker, "orders", "capacity-messages") == raised
        run(broker, "publish", "orders", *(["one"] * 20))
        run(broker, "policies", "set", "ceiling", ".*", "--operator", "capacity-messages=5")
        run(broker, "set", "queue", "#", "stop-percent=50", "capacity-messages=9", "--override")
        assert _shown(broker, "orders", "capacity-messages") == raised, "the more specific pattern"
        assert _shown(broker, "bills", "capacity-messages")[0] == 9
        run(broker, "declare", "queue", "orders", "--durable", "capacity-messages=10")
        exported = _exported(broker)
        assert {
            "scope": "queue",
            "pattern": "%2F/orders",
            "settings": {},
            "override": {"capacity-messages": "1000"},
        } in (exported["settings"])
    with serving(tmp_path, "--data", str(data)) as broker:
        assert _shown(broker, "orders", "capacity-messages") == raised
        audit = "".join(each.read_text() for each in data.glob("audit-log/*"))
        assert r"\"override\": true" in audit
        assert "override" in run(broker, "settings", "--filter", "pattern=orders")
        run(broker, "unset", "queue", "orders")
        run(broker, "unset", "queue", "#")
        lowered = (5, "operator policy 'ceiling': capacity-messages=5")
        assert _shown(broker, "orders", "capacity-messages") == lowered
        assert "operator policy 'ceiling': capacity-messages=5 is stronger" in run(
            broker, "set", "queue", "orders", "capacity-messages=8", code=1
        )
        (tmp_path / "exported.json").write_text(json.dumps(exported))
        run(broker, "definitions", "import", str(tmp_path / "exported.json"))
        assert _shown(broker, "orders", "capacity-messages") == raised
        assert told(broker, "definitions", "import", str(tmp_path / "exported.json"))["changed"] == {}
    with serving(tmp_path, "--data", str(data)) as broker:
        assert _shown(broker, "orders", "capacity-messages") == raised


def test_set_reports_settings_that_some_of_its_queues_hide(own_broker: BrokerProcess) -> None:
    run(own_broker, "declare", "queue", "orders.eu")
    run(own_broker, "declare", "queue", "orders.us", "stop-bytes=2000000", "x-max-length=4", "x-overflow=block")
    assert "matches orders.eu" in run(own_broker, "set", "queue", "orders.eu", "capacity-messages=3")
    assert "capacity-messages=9 has no effect on queue orders.us: argument x-max-length=4 is stronger" in run(
        own_broker, "set", "queue", "orders.#", "capacity-messages=9", code=1
    )
    own = "pattern 'orders.eu' of vhost '/', set by command: capacity-messages=3 is stronger"
    run(own_broker, "set", "queue", "#", "hold-deadline=9", "stop-percent=70")
    assert own in run(own_broker, "set", "queue", "*.eu", "capacity-messages=9", code=1)
    hidden = run(own_broker, "policies", "set", "length", ".*", "max-length=7", "capacity-messages=9")
    assert "max-length=7 has no effect on queue orders.us: argument x-max-length=4 is stronger" in hidden
    wrong = run(own_broker, "set", "vhost", "/", "capacity-messages=9", "--override", code=1)
    assert "an override is of queues" in wrong


def _shown(broker: BrokerProcess, queue: str, setting: str) -> tuple[object, str]:
    row = next(row for row in told(broker, "show", "queue", queue) if row["setting"] == setting)
    return row["value"], row["from"]


def _exported(broker: BrokerProcess) -> Any:
    return json.loads(run(broker, "definitions", "export"))


def test_connections_of_an_operators_commands_are_logged_at_debug(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        run(broker, "declare", "queue", "orders")
        run(broker, "users", "add", "ada", "--no-password")
        run(broker, "status")
        with Connection(broker.url):
            assert "a test" in broker.await_logged("CON-1001")[0]
        assert len(broker.await_logged("CON-1002")) == 1
    with serving(tmp_path, "--log-level", "debug") as broker:
        run(broker, "status")
        assert "DEBUG" in broker.await_logged("CON-1002")[0]


def test_units_go_in_and_out(own_broker: BrokerProcess) -> None:
    run(own_broker, "declare", "queue", "orders", "capacity-bytes=4 MB", "hold-deadline=2 min", "message-ttl=5s")
    run(own_broker, "set", "queue", "orders", "consumer-timeout=1H", "credit-idle=250ms", "burst=1", code=1)
    run(own_broker, "set", "queue", "orders", "consumer-timeout=1H", "credit-idle=250ms", "consumer-window-bytes=64KiB")
    run(own_broker, "set", "user", "guest", "rate-bytes=64 MiB", "burst-bytes=128mib")
    table = dict(line.split("  ", 1) for line in run(own_broker, "show", "queue", "orders").splitlines())
    found = {name: text.strip().split("  ")[0] for name, text in table.items()}
    assert {
        "capacity-bytes": "4 MB",
        "stop-bytes": "3.2 MB",
        "hold-deadline": "2 min",
        "message-ttl": "5 s",
        "consumer-timeout": "1 h",
        "credit-idle": "250 ms",
        "consumer-window-bytes": "64 KiB",
    }.items() <= found.items()
    assert "64 MiB" in run(own_broker, "show", "user", "guest")
    run(own_broker, "watch", "orders", "--count", "1", "--interval", "100 ms")
    assert run(own_broker, "consume", "orders", "--timeout", "0.1 s") == ""


def test_show_lists_declared_settings_and_the_effective_source(own_broker: BrokerProcess) -> None:
    words = ["x-max-length=9", "x-max-priority=5", "x-single-active-consumer=true", "x-dead-letter-exchange=lost"]
    run(own_broker, "declare", "queue", "orders", *words)
    run(own_broker, "policies", "set", "length", ".*", "max-length=7", "dead-letter-routing-key=key")
    run(own_broker, "policies", "set", "ceiling", ".*", "--operator", "max-length=8")
    rows = {row["setting"]: row for row in told(own_broker, "show", "queue", "orders")}
    shown = {name: (rows[name]["value"], rows[name]["from"]) for name in rows}
    assert {
        "max-length": (7, "policy 'length': max-length=7; of what is ready; beyond, drop-head"),
        "delivery-limit": (None, "default of classic queues"),
        "dead-letter-exchange": ("lost", "argument x-dead-letter-exchange=lost"),
        "dead-letter-routing-key": ("key", "policy 'length': dead-letter-routing-key=key"),
        "queue-type": ("classic", "default"),
        "max-priority": (5, "argument x-max-priority=5"),
        "single-active-consumer": (True, "argument x-single-active-consumer=true"),
    }.items() <= shown.items()
    assert rows["max-length"]["hides"] == [
        {"value": "9", "from": "argument x-max-length=9"},
        {"value": "8", "from": "operator policy 'ceiling': max-length=8"},
    ]
    lines = run(own_broker, "show", "queue", "orders", "--filter", "setting=max-length").splitlines()
    assert [line.split()[1] for line in lines] == ["value", "7", "(9)", "(8)"]
    run(own_broker, "declare", "queue", "bills", "--durable", "x-queue-type=quorum")
    rows = {row["setting"]: row for row in told(own_broker, "show", "queue", "bills")}
    assert (rows["delivery-limit"]["value"], rows["delivery-limit"]["from"]) == (20, "default of quorum queues")
