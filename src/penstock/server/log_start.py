"""Record of the start: version, process, store, limits, and the settings that differ from their defaults."""

from __future__ import annotations

import os
import platform
import re
from importlib import import_module
from math import inf
from typing import Final

from penstock.config import AT_START, Settings
from penstock.driver.driver import BrokerDriver
from penstock.log_ids import STARTED
from penstock.logger import log
from penstock.server.host_memory import memory_bytes, open_files
from penstock.version import VERSION

USER_INFO: Final = re.compile(r"(://[^:@/]*:).*@")
PASSWORD: Final = re.compile(r"(password=)[^&]*", re.IGNORECASE)
"""Passwords of a URL: before the host, and in the query (`password`, `sslpassword`)."""


def without_secrets(value: object) -> object:
    """Return the value of a setting as people may see it: a store's URL without its password."""
    if not isinstance(value, str):
        return value
    return PASSWORD.sub(r"\1***", USER_INFO.sub(r"\1***@", value))


def changed_settings(settings: Settings) -> dict[str, object]:
    """Return the start-up settings that differ from their defaults, by name, without secrets."""
    default, found = Settings(), dict[str, object]()
    for name in AT_START:
        value = getattr(settings, name)
        if value != getattr(default, name):
            found[name.replace("_", "-")] = without_secrets(value)
    return found


def log_start(settings: Settings, store: str, driver: BrokerDriver) -> None:
    """Log the start (BRK-1001). Users and keys are counted and never named."""
    build = "compiled" if import_module("penstock").compiled() else "interpreted"
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
    """Return the limits that this machine and the settings give the broker."""
    policy = driver.connection_limits
    memory = driver.broker.gates.memory
    return {
        "machine-memory-bytes": memory_bytes(),
        "memory-capacity-bytes": None if memory is None else int(memory.thresholds.capacity.bytes),
        "open-files": open_files(),
        "cpus": os.cpu_count(),
        "connections": policy.connections_max or None,
        "message-bytes": policy.message_bytes_max,
    }


def _pairs(values: dict[str, object]) -> str:
    return ", ".join(f"{name}={'none' if value is None else value}" for name, value in values.items())


def counted_connections(count: int) -> str:
    """Return a number of connections for people."""
    return "1 connection is closed" if count == 1 else f"{count:,} connections are closed"


def slow_turn_s(settings: Settings) -> float:
    """Return the seconds from which a turn is slow; infinity if none is."""
    return settings.slow_turn_ms / 1000 or inf
