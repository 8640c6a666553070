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
    "client/engine/events.py": "names and a row; tests/client tests which events there are",
    "client/engine/terms.py": "rows; tests/client/test_options.py tests what fills them in",
    "client/engine/window.py": "a part of a publisher; tests/client/engine/test_publisher.py tests it",
    **{
        f"client/engine/{name}.py": "a part of one protocol; tests/client/engine tests both protocols alike"
        for name in (
            *("amqp091/channel", "amqp091/publisher", "amqp091/requester", "amqp091/transaction"),
            *("amqp10/publisher", "amqp10/requests", "amqp10/session", "amqp10/transaction"),
        )
    },
    "settings/lengths.py": "two numbers",
    "markers.py": "a marker for type checkers",
    "sync.py": "names; tests/client/test_blocking.py tests what they are of",
    "core/consume/context.py": "what sessions use of the broker; tests/core/test_broker.py tests the broker",
    "core/publish/context.py": "what publishers use of the broker; tests/core/test_broker.py tests the broker",
    "core/publish/sink_state.py": "what lists know of queries that publish; tests/ranges/test_marks.py tests them",
    "core/queue/context.py": "what queues use of the broker; tests/core/test_broker.py tests the broker",
    "core/range_plane.py": "the interface of cursors; tests/ranges/test_service.py tests what fills it in",
    "core/routing/topology.py": "what gates use of a virtual host; tests/core/test_vhost.py tests it",
    "operations/spark.py": "rows; tests/operations/test_table.py goes through them",
    "connections/callbacks.py": "listeners that only call a function",
    "server/secured_protocol.py": "what TLS reports; tests/server/tls/test_layer.py tests the layer that reports it",
    "connections/services.py": "the interface of the driver; tests/driver/test_services.py tests what fills it in",
}
"""Modules without a behaviour of their own, with the reason."""


def modules() -> set[str]:
    """Return the paths of all modules below the package."""
    return {str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*.py") if path.name not in EXCEPTIONS}


def places_of(module: str) -> list[Path]:
    """Return the paths of a module's tests: `test_pager.py`, and `test_pager_loads.py` for a part of what it does."""
    path = ROOT / "tests" / module
    return [*path.parent.glob(f"test_{path.stem}.py"), *path.parent.glob(f"test_{path.stem}_*.py")]


def test_modules_have_tests_at_their_place() -> None:
    missing = {module for module in modules() if not places_of(module)}
    assert sorted(missing - INTERFACES.keys()) == []


def test_exceptions_are_modules_without_tests() -> None:
    assert sorted(module for module in INTERFACES if module not in modules() or places_of(module)) == []
