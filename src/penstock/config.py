"""Settings of a broker: each with its default, its unit and its reason; read from a TOML file.

The file has one table, `[broker]`, with the names below (hyphens for underscores), and `[users]` with name = password.
"""

from __future__ import annotations

import difflib
import math
import tomllib
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from penstock.core.settings import (
    DEFAULT_CAPACITY_BYTES,
    DEFAULT_HOLD_DEADLINE_S,
    DEFAULT_RESUME_PERCENT,
    DEFAULT_STOP_PERCENT,
)
from penstock.errors import ConfigError

RANGES: Final[dict[str, tuple[int, int]]] = {
    "stop-percent": (0, 100),
    "resume-percent": (0, 100),
    "frame-max": (4096, 2**31 - 1),
    "channel-max": (1, 2**16 - 1),
    "heartbeat-s": (0, 2**16 - 1),
    "flow-log-files": (2, 10_000),
    "flow-log-file-bytes": (4096, 2**40),
}
"""Settings with a least and a most: what the protocol can carry (AMQP 0-9-1, connection.tune), and percentages."""


NO_FLOW_LOG: Final = "off"
"""As the flow log's directory: none, although there is a data directory."""


@dataclass(frozen=True)
class Settings:
    """What a broker is started with."""

    listen: list[str] = field(default_factory=lambda: ["127.0.0.1:5672"])
    """HOST:PORT of each listener; port 0 picks a free one."""
    data: str | None = None
    """Data directory; None keeps everything in memory."""
    vhosts: list[str] = field(default_factory=lambda: ["/"])
    """Virtual hosts."""
    users: dict[str, str] | None = None
    """Names and passwords; None is guest/guest, from this machine only."""
    capacity_bytes: int = DEFAULT_CAPACITY_BYTES
    """Capacity of a queue that was declared without one: bytes of charges."""
    stop_percent: float = DEFAULT_STOP_PERCENT
    """Stop threshold of a queue that gives none, in percent of its capacity."""
    resume_percent: float = DEFAULT_RESUME_PERCENT
    """Resume threshold of a queue that gives none, in percent of its capacity."""
    hold_deadline_s: float = DEFAULT_HOLD_DEADLINE_S
    """Seconds that a publish may be held; 0 is for ever."""
    hold_bytes: int = 1024 * 1024
    """Bytes that a connection may have held before its reading is paused."""
    message_bytes_max: int = 128 * 1024 * 1024
    """Largest body, in octets."""
    frame_max: int = 131072
    """Largest frame offered, in octets (4096 at least, AMQP 0-9-1 section 4.2.3)."""
    channel_max: int = 2047
    """Channels of a connection."""
    heartbeat_s: int = 60
    """Seconds between heartbeats that are offered; 0 is none."""
    flow_log: str | None = None
    """Directory of the flow log; None is flow-log in the data directory where there is one, "off" is none."""
    flow_log_files: int = 8
    """Files of the flow log; beyond, the oldest is deleted."""
    flow_log_file_bytes: int = 16 * 1024 * 1024
    """Largest file of the flow log: with 8 of them, days of a quiet broker and about an hour of a busy one."""


def load(path: Path) -> Settings:
    """Read a settings file. Raises ConfigError naming the file, the line or the setting, and the rule."""
    try:
        parsed = tomllib.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"cannot read the settings file '{path}': {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the settings file '{path}' is not TOML: {error}") from None
    users = parsed.pop("users", None)
    given = parsed.pop("broker", {})
    if parsed:
        raise ConfigError(f"'{path}' has an unknown table [{next(iter(parsed))}]; known are [broker] and [users]")
    for name, table in (("broker", given), ("users", users)):
        if table is not None and not isinstance(table, dict):
            raise ConfigError(f"'{path}': [{name}] must be a table, not {table!r}")
    if users is not None and not all(isinstance(password, str) for password in users.values()):
        raise ConfigError(f"'{path}': a password in [users] must be a string")
    return replace(Settings(users=users), **_checked(path, given))


def _checked(path: Path, given: dict[str, Any]) -> dict[str, Any]:
    known = {each.name.replace("_", "-"): each.name for each in fields(Settings) if each.name != "users"}
    checked: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise ConfigError(f"'{path}': unknown setting {name}" + (f"; did you mean {near[0]}?" if near else ""))
        checked[known[name]] = _typed(path, name, value, getattr(Settings(), known[name]))
    if checked.get("resume_percent", DEFAULT_RESUME_PERCENT) > checked.get("stop_percent", DEFAULT_STOP_PERCENT):
        raise ConfigError(f"'{path}': resume-percent is above stop-percent; producers would stay blocked for ever")
    return checked


def _typed(path: Path, name: str, value: object, default: object) -> object:
    if isinstance(default, list):
        if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
            return value
        raise ConfigError(f"'{path}': {name} must be a list of strings, not {value!r}")
    if default is None:
        if isinstance(value, str):
            return value
        raise ConfigError(f"'{path}': {name} must be a string, not {value!r}")
    number = isinstance(value, int) and not isinstance(value, bool)
    if isinstance(default, float) and (number or isinstance(value, float)):
        number = True
    if not number or not float(str(value)) >= 0:
        raise ConfigError(f"'{path}': {name} must be a number from 0, not {value!r}")
    least, most = RANGES.get(name, (0, math.inf))
    if not least <= float(str(value)) <= most:
        raise ConfigError(f"'{path}': {name} must be between {least} and {most}, not {value!r}")
    return value
