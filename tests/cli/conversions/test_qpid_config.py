"""Lists of qpid-config and its commands as definitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.conversions.qpid_config import convert_qpid_config
from penstock.errors import ConfigError
from tests.support.brokers import BrokerProcess
from tests.support.commands import run, told

LISTS = """\
Queue Name                                     Attributes
======================================================================
orders                                         --durable --max-queue-size=204800 --limit-policy=reject
ring                                           --max-queue-count=10 --limit-policy=ring-strict
reply-1                                        auto-del excl --argument x-note=five

Type      Exchange Name                   Attributes
==================================================
direct
direct    amq.direct                      --durable
topic     logs                            --durable
xml       papers

Queue 'orders'
    bind [orders] => ''
    bind [eu.#] => logs
Exchange 'logs' (topic)
    bind [us.#] => ring
    bind [any] => ring {'x-match': 'any'}
"""
"""Output of qpid-config queues, exchanges, queues -b and exchanges -b."""

COMMANDS = """\
# what was typed in 2012
qpid-config -b localhost:5672 add queue q --durable --max-queue-size 204800 --flow-stop-size=163840 \
--flow-resume-size=100000
/usr/bin/qpid-config add exchange topic 'my logs' --durable --sequence
qpid-config bind 'my logs' q 'a.*'
qpid-config add queue p --limit-policy=none --file-size=24 --argument=qpid.msg_sequence=1
qpid-config del queue old
"""


def convert(text: str) -> dict[str, list[dict[str, object]]]:
    return convert_qpid_config(text.encode()).entries


def remarks(text: str) -> list[tuple[int, str]]:
    return [(each.line, each.subject) for each in convert_qpid_config(text.encode()).remarks]


def queue(name: str, durable: bool = False, auto_delete: bool = False, **arguments: object) -> dict[str, object]:
    return {"name": name, "durable": durable, "auto_delete": auto_delete, "arguments": arguments}


def bindings(text: str) -> list[tuple[object, ...]]:
    return [(each["source"], each["destination"], each["routing_key"]) for each in convert(text)["bindings"]]


def test_rows_of_lists_are_queues_and_exchanges() -> None:
    found = convert(LISTS)
    assert found["queues"] == [
        queue("orders", True, **{"qpid.max_size": 204800, "qpid.policy_type": "reject"}),
        queue("ring", **{"qpid.max_count": 10, "qpid.policy_type": "ring_strict"}),
        queue("reply-1", auto_delete=True, **{"x-note": "five"}),
    ]
    assert [(each["name"], each["type"], each["durable"]) for each in found["exchanges"]] == [("logs", "topic", True)]
    assert remarks(LISTS) == [(5, "--excl"), (12, "exchange papers"), (19, "binding of ring to logs")]


def test_lists_of_bindings_are_bindings_but_for_the_default_exchange() -> None:
    assert bindings(LISTS) == [("logs", "orders", "eu.#"), ("logs", "ring", "us.#")]
    assert remarks("Queue 'q'\n    bind [k] => amq.topic\n") == [(1, "queue q")]


def test_commands_are_queues_exchanges_and_bindings() -> None:
    found = convert(COMMANDS)
    sizes = {"qpid.max_size": 204800, "qpid.flow_stop_size": 163840, "qpid.flow_resume_size": 100000}
    assert found["queues"] == [queue("q", True, **sizes), queue("p")]
    assert [each["name"] for each in found["exchanges"]] == ["my logs"]
    assert bindings(COMMANDS) == [("my logs", "q", "a.*")]
    assert remarks(COMMANDS) == [
        (2, "--broker=localhost:5672"),
        (3, "--sequence"),
        (5, "--limit-policy=none"),
        (5, "--file-size=24"),
        (5, "argument qpid.msg_sequence"),
        (6, "del queue old"),
    ]


def test_queue_of_a_command_has_its_thresholds(own_broker: BrokerProcess, tmp_path: Path) -> None:
    file = tmp_path / "queues.txt"
    file.write_text(COMMANDS)
    made = run(own_broker, "definitions", "import", "--from", "qpid-config", str(file)).splitlines()
    assert made[-1] == "1 exchange, 2 queues, 1 binding created"
    assert "line 6: del queue old: not converted: only add queue, add exchange and bind by a key are read" in made
    shown = {row["setting"]: row["value"] for row in told(own_broker, "show", "queue", "q")}
    assert (shown["capacity-bytes"], shown["stop-bytes"]) == (204800, 163840)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("qpid-config add queue q --max-queue-sise=5",
            "line 1: 'max-queue-sise' is not known; did you mean max-queue-size?"),
        ("qpid-config add queue q --argument qpid.max_sice=5",
            "line 1: 'qpid.max_sice' is not known; did you mean qpid.max_size?"),
        ("qpid-config add queue q --new-thing=5", "line 1: the option --new-thing is not known"),
        ("qpid-config add queue q --max-queue-size", "line 1: the option --max-queue-size needs a value"),
        ("\nqpid-config add queue 'q", "line 2: no closing quotation"),
        ("qpid-config --durable", "line 1: a name is missing"),
        ("hello", "line 1: 'hello' is neither a command qpid-config, nor a row below a title of its lists"),
        ("\udcff", "the file is not UTF-8: invalid start byte at byte 0"),
    ],
)  # fmt: skip
def test_error_names_line_and_rule(text: str, error: str) -> None:
    with pytest.raises(ConfigError) as caught:
        convert_qpid_config(text.encode(errors="surrogateescape"))
    assert str(caught.value) == error
