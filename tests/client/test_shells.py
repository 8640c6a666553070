"""Methods that both shells derive from the table of operations: docstrings and signatures."""

from __future__ import annotations

import inspect
import typing

import pytest

import penstock
import penstock.sync
from penstock.client.operations import Operations
from penstock.client.shells import Listing, Operation

TABLE = {name: call for name, call in vars(Operations).items() if isinstance(call, (Operation, Listing))}


def test_method_shows_parameters_result_and_text() -> None:
    blocking = inspect.signature(penstock.sync.Connection.declare_queue)
    assert list(blocking.parameters) == ["self", "name", "durable", "exclusive", "auto_delete", "settings"]
    assert blocking.parameters["durable"].default is True
    assert blocking.return_annotation == "str"
    assert str(inspect.signature(penstock.Connection.list)).endswith("-> 'AsyncIterator[Answer]'")
    assert str(inspect.signature(penstock.sync.Connection.list)).endswith("-> 'Iterator[Answer]'")
    assert penstock.Connection.why.__qualname__ == "Connection.why"


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("Publisher", {"drain", "close"}),
        ("Receiver", {"get", "drain", "count", "close"}),
        ("Transaction", {"commit", "rollback"}),
        ("Events", {"get"}),
    ],
)
def test_operations_of_other_objects_are_methods_of_both_shells(kind: str, names: set[str]) -> None:
    awaited, blocking = getattr(penstock, kind), getattr(penstock.sync, kind)
    for name in names:
        assert inspect.iscoroutinefunction(getattr(awaited, name))
        assert not inspect.iscoroutinefunction(getattr(blocking, name))
        assert getattr(awaited, name).__doc__ == getattr(blocking, name).__doc__ is not None
        assert next(iter(inspect.signature(getattr(blocking, name)).parameters)) == "self"


def test_operation_is_a_documented_method_of_both_shells() -> None:
    assert len(TABLE) > 30
    for name, call in TABLE.items():
        awaited, blocking = getattr(penstock.Connection, name), getattr(penstock.sync.Connection, name)
        assert awaited.__doc__ == blocking.__doc__ is not None
        assert inspect.iscoroutinefunction(awaited) == isinstance(call, Operation)
        assert inspect.isasyncgenfunction(awaited) == isinstance(call, Listing)
        assert not inspect.iscoroutinefunction(blocking)
        assert "engine" not in inspect.signature(awaited).parameters
        assert "return" in typing.cast("dict[str, str]", blocking.__annotations__)
