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
INTERFACES: dict[str, str] = {}
"""Modules without a behaviour of their own, with the reason."""
WITHOUT_TESTS: frozenset[str] = frozenset()
"""Modules that have none yet; none may be added."""
UNDER_WAY = (
    "core/consume/",
    "core/publish/",
    "core/routing/",
    "core/journal/",
    "protocols/",
    "management/",
    "driver/",
    "server/event_loop",
    "server/transport",
    "server/store_writer",
    "server/http/clients",
    "persistence/row_",
    "core/message",
    "core/queue/queue.py",
)
"""Beginnings of the paths of modules that are being rearranged."""


def modules() -> set[str]:
    """Return the paths of all modules below the package."""
    return {str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*.py") if path.name not in EXCEPTIONS}


def place_of(module: str) -> Path:
    """Return the path of a module's tests."""
    path = Path(module)
    return ROOT / "tests" / path.parent / f"test_{path.name}"


def test_every_module_has_tests_at_its_place() -> None:
    missing = {module for module in modules() if not place_of(module).exists() and not module.startswith(UNDER_WAY)}
    assert sorted(missing - INTERFACES.keys() - WITHOUT_TESTS) == []


def test_exceptions_are_modules_without_tests() -> None:
    listed = INTERFACES.keys()
    assert sorted(module for module in listed if module not in modules() or place_of(module).exists()) == []
