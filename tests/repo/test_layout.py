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
WITHOUT_TESTS = frozenset(
    (
        "cli/common.py",
        "cli/messages.py",
        "cli/operator_commands.py",
        "cli/serve.py",
        "cli/store_commands.py",
        "cli/topology.py",
        "client/channel.py",
        "client/content.py",
        "config.py",
        "core/broker.py",
        "core/gates/disk_gate.py",
        "core/queue/counters.py",
        "core/queue/descriptions.py",
        "core/queue/overflow/block.py",
        "core/queue/overflow/drop_head.py",
        "core/queue/overflow/page.py",
        "core/queue/overflow/reject.py",
        "core/queue/overflow/reject_dead_letter.py",
        "core/queue/page_io.py",
        "core/queue/pager.py",
        "core/queue/paging_setup.py",
        "core/queue/priority_queue.py",
        "core/queue/ready_queue.py",
        "core/vhost.py",
        "errors.py",
        "flow/counted_depth.py",
        "flow/shared_limit.py",
        "flowlog.py",
        "persistence/settlement_codec.py",
        "server/broker.py",
        "server/disk_sampler.py",
        "server/flowlog.py",
        "server/host_memory.py",
        "server/http/admission.py",
        "server/http/app.py",
        "server/http/cursors.py",
        "server/http/get_messages.py",
        "server/http/listener.py",
        "server/http/listing.py",
        "server/http/messages.py",
        "server/http/node.py",
        "server/http/request.py",
        "server/http/slices.py",
        "server/http/topology.py",
        "server/http/vhosts.py",
        "server/listener.py",
        "server/logs.py",
        "server/store_open.py",
        "server/store_repair.py",
        "setting_names/escapes.py",
        "setting_names/features.py",
        "setting_names/parse.py",
        "setting_names/setting_value.py",
        "store/postgres/space.py",
        "store/records.py",
        "store/tables.py",
        "store/transaction_count.py",
        "store/writing.py",
    )
)
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
