"""Joins: two brokers with one virtual host each answer as one with both, for each operation that asks all of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from penstock.errors import BrokerError
from penstock.management.operation import ALL, Asked, Operation, may_answer, who_answers
from penstock.operations.table import CONTROL, KINDS, OPERATIONS
from tests.support.halves import ENTERS, HOSTS, TAGS, Scene, answer_of, comparable, joined_answer


def name_of(row: Operation) -> str:
    return row.name or row.routes[0].where


OF_ALL = {name_of(row): row for row in OPERATIONS if ALL in may_answer(row)}
NOT_JOINED = {
    "definitions.import": "it is carried out by the brokers that it names, and is no question",
}
"""Operations that ask all brokers and have no join, each with the reason."""
OWN = {
    "turns": "longest turns of one event loop",
    "limit": "a pool's limit is that of one process",
    "connection_created": "",
    "id": "",
}


def test_scene_builds() -> None:
    whole = Scene(HOSTS)
    halves = [Scene([h]) for h in HOSTS]
    drivers = [h.driver for h in halves]
    for row, fields in [
        (CONTROL["list"], {"kind": "queues", "everywhere": True}),
        (CONTROL["list"], {"kind": "connections", "everywhere": True}),
        (CONTROL["list"], {"kind": "channels", "everywhere": True}),
        (CONTROL["list"], {"kind": "consumers", "everywhere": True}),
        (CONTROL["why"], {}),
        (CONTROL["status"], {}),
        (CONTROL["top"], {"everywhere": True}),
        (OF_ALL["GET /overview"], {}),
        (OF_ALL["GET /penstock/history"], {}),
        (CONTROL["watch"], {"after": 0}),
    ]:
        a = comparable(answer_of(whole.driver, row, fields, "guest", "/"), OWN)
        b = comparable(joined_answer(drivers, row, fields, "guest", "/"), OWN)
        print(name_of(row), fields, a == b, len(str(a)))
        if a != b:
            show(a, b)


def show(a, b, path=""):
    if type(a) != type(b):
        print("  ", path, "WHOLE", str(a)[:300], "JOINED", str(b)[:300])
    elif isinstance(a, dict):
        for k in {**a, **b}:
            show(a.get(k), b.get(k), f"{path}.{k}")
    elif isinstance(a, list):
        if len(a) != len(b): print("  ", path, "LEN", len(a), len(b))
        n = 0
        for i, (x, y) in enumerate(zip(a, b)):
            if x != y:
                n += 1
                if n < 4: show(x, y, f"{path}[{i}]")
    elif a != b:
        print("  ", path, "WHOLE", str(a)[:300], "JOINED", str(b)[:300])
