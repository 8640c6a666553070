"""Typed answers of Penstock: their fields, and those that an older or newer broker omits."""

from __future__ import annotations

from penstock.client.answers import why_of
from penstock.client.engine.outcomes import Amounts

QUEUE = {
    "queue": "orders",
    "vhost": "/shop",
    "depth": {"messages": 6, "bytes": 600},
    "capacity": {"messages": 10, "bytes": None},
    "stop": {"messages": 5, "bytes": None},
    "resume": {"messages": 2, "bytes": None},
    "gate": {"kind": "queue", "name": "orders", "open": False, "closed_for_s": 2.5, "blocked": 1},
    "gates": [{"kind": "memory", "name": "memory", "open": True, "closed_for_s": None, "blocked": 0}],
    "blocked": [{"producer": "con:1/ch:1", "blocked_for_s": 2.5, "withheld": 1, "held": 3, "refused": 0}],
    "sentences": ["it is full", "it has no consumer"],
    "newer": True,
}


def test_answer_for_a_queue_has_the_queues_gate_first() -> None:
    answer = why_of(QUEUE, "queue")
    own, memory = answer.gates
    assert own[:7] == ("queue", "orders", "/shop", False, "", 2.5, 1)
    assert (own.depth, own.capacity, own.resume) == (Amounts(6, 600), Amounts(10), Amounts(2))
    assert memory[:7] == ("memory", "memory", None, True, "", None, 0)
    assert answer.blocked[0][:5] == ("con:1/ch:1", 2.5, 1, 3, 0)
    assert answer.depth == Amounts(6, 600)
    assert str(answer) == "it is full\nit has no consumer"
    assert answer.raw["newer"] is True


def test_answer_without_fields_is_empty() -> None:
    answer = why_of({}, "")
    assert answer[:4] == ("", (), (), ())
    assert answer.depth == Amounts()


def test_answer_for_a_connection_has_sentences() -> None:
    answer = why_of({"name": "con:1", "blocked": True, "sentences": ["con:1 is not blocked"]}, "connection")
    assert (answer.kind, answer.gates, answer.blocked) == ("connection", (), ())
    assert answer.sentences == ("con:1 is not blocked",)
