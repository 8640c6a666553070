"""Every module of the broker has tests at its place: `core/queue/pager.py` in `tests/core/queue/test_pager.py`."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src" / "penstock"

EXCEPTIONS = {
    "__init__.py": "its names are tested where they are defined",
    "__main__.py": "two lines that call the command line; every test of a whole broker starts with it",
}
"""Names of files that need no tests of their own, with the reason."""
INTERFACES = {
    "client/calls.py": "single calls of an engine; tests/client/test_aio.py and test_blocking.py call them",
    "client/engine/connection.py": "what the protocols fill in; tests/client/engine/amqp091 and amqp10 test them",
    "client/engine/events.py": "records; tests/client/test_handles.py tests what makes them",
    "client/engine/receipt.py": "the outcome of a message; tests/client/engine/test_publisher.py tests it",
    "client/engine/replies.py": "answers to calls; tests/client/engine/test_requester.py tests them",
    "client/engine/room.py": "a part of a publisher; tests/client/engine/test_publisher.py tests it",
    "client/engine/tally.py": "sums; tests/client/test_counters.py tests them",
    "client/engine/terms.py": "records",
    "client/engine/window.py": "a part of a publisher; tests/client/engine/test_publisher.py tests it",
    **{
        f"client/engine/{name}.py": "a part of one protocol; tests/client/engine tests both protocols alike"
        for name in (
            *("amqp091/channel", "amqp091/publisher", "amqp091/receiver", "amqp091/requester", "amqp091/transaction"),
            *("amqp10/publisher", "amqp10/requests", "amqp10/sasl", "amqp10/session", "amqp10/requester"),
            "amqp10/transaction",
        )
    },
    "limits.py": "a number",
    "markers.py": "a marker for type checkers",
    "sync.py": "names; tests/client/test_blocking.py tests what they are of",
    "access/credentials.py": "the interface of checks; test_passwords.py, test_tokens.py, test_back_end.py test them",
    "core/consume/context.py": "what sessions use of the broker; tests/core/test_broker.py tests the broker",
    "core/publish/context.py": "what publishers use of the broker; tests/core/test_broker.py tests the broker",
    "core/queue/context.py": "what queues use of the broker; tests/core/test_broker.py tests the broker",
    "core/queue/outlets.py": "what a queue uses of consumers and dead letters; tests/core/consume tests them",
    "core/queue/storage.py": "the records of one queue; tests/core/journal tests them with the journal",
    "core/routing/topology.py": "what gates use of a virtual host; tests/core/test_vhost.py tests it",
    "core/journal/marks.py": "records; tests/ranges/test_marks.py tests what writes and reads them",
    "core/range_plane.py": "what the store knows of ranges; tests/ranges/test_service.py tests what fills it in",
    "describe/described_node.py": "what the driver provides; tests/driver tests the driver",
    "management/node.py": "what the driver provides; tests/driver tests the driver",
    "operations/spark.py": "rows; tests/operations/test_table.py goes through them",
    "protocols/common/callbacks.py": "listeners that only call a function",
    "store/damage.py": "a record and a text; tests/store tests what makes them",
    "protocols/common/services.py": "the interface of the driver; tests/driver/test_services.py tests what fills it in",
}
"""Modules without a behaviour of their own, with the reason."""


def modules() -> set[str]:
    """Return the paths of all modules below the package."""
    return {str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*.py") if path.name not in EXCEPTIONS}


def place_of(module: str) -> Path:
    """Return the path of a module's tests."""
    path = Path(module)
    return ROOT / "tests" / path.parent / f"test_{path.name}"


def test_every_module_has_tests_at_its_place() -> None:
    missing = {module for module in modules() if not place_of(module).exists()}
    assert sorted(missing - INTERFACES.keys()) == []


def test_exceptions_are_modules_without_tests() -> None:
    assert sorted(module for module in INTERFACES if module not in modules() or place_of(module).exists()) == []
