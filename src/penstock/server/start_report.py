"""Report of a start in the log (BRK-1001), and the number of connections in the report of a stop."""

from __future__ import annotations

import os
import platform
from importlib import import_module

from penstock.driver.driver import BrokerDriver
from penstock.logs.ids import STARTED
from penstock.logs.logger import log
from penstock.server.process_limits import memory_bytes, open_files
from penstock.settings.config import Settings, changed_settings, without_secrets
from penstock.version import VERSION


def log_start(settings: Settings, store: str, driver: BrokerDriver) -> None:
    """Log the start (BRK-1001). Users and keys are counted and never named."""
    build = import_module("penstock").build()
    changed = changed_settings(settings)
    limits = _limits(driver)
    fields: dict[str, object] = {
        "version": VERSION,
        "build": build,
        "python": platform.python_version(),
        "pid": os.getpid(),
        "store": str(without_secrets(store)) or None,
        "file": None if settings.file is None else str(settings.file),
        "settings": changed,
        "patterns": len(settings.patterns),
        "users": None if settings.users is None else len(settings.users),
        "limits": limits,
    }
    log(
        STARTED,
        "Startup : Version: %s Build: %s, Python %s, pid %d; store: %s; settings file: %s; limits: %s; "
        "settings without defaults: %s",
        VERSION,
        build,
        fields["python"],
        fields["pid"],
        fields["store"] or "none, what is durable is lost at the end",
        fields["file"] or "none",
        _pairs(limits),
        _pairs(changed) or "none",
        fields=fields,
    )


def _limits(driver: BrokerDriver) -> dict[str, object]:
    """Return the limits of the broker from this machine and the settings."""
    policy = driver.connection_limits
    memory = driver.broker.gates.memory
    return {
        "machine-memory-bytes": memory_bytes(),
        "memory-capacity-bytes": None if memory is None else int(memory.thresholds.capacity.bytes + memory.reserve),
        "open-files": open_files(),
        "cpus": os.cpu_count(),
        "connections": policy.start.connections_max or None,
        "message-bytes": policy.message_bytes_max,
    }


def _pairs(values: dict[str, object]) -> str:
    return ", ".join(f"{name}={'none' if value is None else value}" for name, value in values.items())


def counted_connections(count: int) -> str:
    """Return a number of connections as text."""
    return "1 connection is closed" if count == 1 else f"{count:,} connections are closed"
