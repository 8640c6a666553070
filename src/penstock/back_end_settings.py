"""HTTP back end in the settings file: `[auth-http]`, with the names of RabbitMQ's settings `auth_http.*`."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from penstock.access.permission import KINDS, Permission
from penstock.access.served_rules import check_permission
from penstock.access.user import EVERYTHING
from penstock.errors import BrokerError, ConfigError
from penstock.web_url import url_fault

USER_PATH: Final = "user_path"
VHOST_PATH: Final = "vhost_path"
METHODS: Final = ("post", "get")
RANGES: Final[dict[str, tuple[float, float]]] = {
    "timeout_s": (0.1, 60),
    "cache_s": (0, 3_600),
    "threads": (1, 64),
}
KNOWN: Final = (
    USER_PATH,
    VHOST_PATH,
    "http_method",
    "timeout_s",
    "cache_s",
    "threads",
    "permissions",
    "ca",
    "insecure",
)
NOT_ASKED: Final[dict[str, str]] = {
    "resource_path": "permissions in [auth-http] has the expressions for queues and exchanges",
    "topic_path": "who may write to or read from a topic exchange may use all of its routing keys",
}
"""Paths of RabbitMQ that have no counterpart, and what counts instead (decision 72)."""


class BackEndSettings:
    """Contents of `[auth-http]`."""

    def __init__(self) -> None:
        self.user_path: str = ""
        """URL that is asked for a user and its password."""
        self.vhost_path: str = ""
        """URL that is asked for each virtual host; empty: a user may enter all of them."""
        self.http_method: str = METHODS[0]
        self.timeout_s: float = 5.0
        """Seconds that one question may take in all."""
        self.cache_s: float = 30.0
        """Seconds for which a login that succeeded is known without another question; 0 is none."""
        self.threads: int = 4
        """Questions that are asked at a time."""
        self.permission: Permission = EVERYTHING
        """Permission in each virtual host that may be entered."""
        self.ca: str = ""
        """File with the certificates that the server's is signed by; empty: those of the system."""


def read_back_end(table: dict[str, Any], folder: Path, error: Callable[[str, str], ConfigError]) -> BackEndSettings:
    """Read `[auth-http]`. `folder` is that of the settings file; `error` makes an error for a key, with its line.

    Raises ConfigError.
    """
    for key in table:
        instead = NOT_ASKED.get(key.replace("-", "_"))
        if instead is not None:
            raise error(
                key,
                f"{key} in [auth-http] is never asked, because the server is asked at the login only: {instead}; "
                "remove the line (docs/users.md, HTTP back end)",
            )
        if key not in KNOWN:
            raise error(key, f"unknown setting {key} in [auth-http]; known are {', '.join(KNOWN)}")
    found = BackEndSettings()
    if not isinstance(table.get("insecure", False), bool):
        raise error("insecure", f"insecure in [auth-http] must be true or false, not {table['insecure']!r}")
    found.user_path = _url(table, USER_PATH, error)
    found.vhost_path = _url(table, VHOST_PATH, error)
    if not found.user_path:
        raise error(USER_PATH, f"[auth-http] needs {USER_PATH}")
    found.http_method = table.get("http_method", METHODS[0])
    if found.http_method not in METHODS:
        raise error("http_method", f"http_method in [auth-http] must be post or get, not {found.http_method!r}")
    numbers = {key: _number(table, key, error) for key in RANGES if key in table}
    found.timeout_s = numbers.get("timeout_s", found.timeout_s)
    found.cache_s = numbers.get("cache_s", found.cache_s)
    found.threads = int(numbers.get("threads", found.threads))
    if "permissions" in table:
        found.permission = _permission(table["permissions"], error)
    if "ca" in table:
        path = folder / str(table["ca"])
        if not path.is_file():
            raise error("ca", f"ca in [auth-http] names the file '{path}', which is not there")
        found.ca = str(path)
    return found


def _url(table: dict[str, Any], key: str, error: Callable[[str, str], ConfigError]) -> str:
    given = table.get(key, "")
    if not isinstance(given, str):
        raise error(key, f"{key} in [auth-http] must be a URL, not {given!r}")
    fault = url_fault(given, insecure=table.get("insecure") is True) if given else ""
    if fault:
        raise error(key, f"{key} in [auth-http] {fault}")
    return given


def _number(table: dict[str, Any], key: str, error: Callable[[str, str], ConfigError]) -> float:
    value, (least, most) = table[key], RANGES[key]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not least <= value <= most or (key == "threads" and not isinstance(value, int)):
        raise error(key, f"{key} in [auth-http] must be between {least} and {most}, not {value!r}")
    return float(value)


def _permission(given: object, error: Callable[[str, str], ConfigError]) -> Permission:
    key = "permissions"
    if not isinstance(given, dict) or set(given) != set(KINDS) or not all(isinstance(v, str) for v in given.values()):
        raise error(key, f"permissions in [auth-http] must have the expressions {', '.join(KINDS)}, not {given!r}")
    permission = Permission(given["configure"], given["write"], given["read"])
    try:
        check_permission(permission)
    except BrokerError as refused:
        raise error(key, f"permissions in [auth-http]: {refused}") from None
    return permission
