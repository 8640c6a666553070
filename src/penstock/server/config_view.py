"""Start-up settings as rows for people and programs: value, default and source, without secrets.

A source is FILE:LINE, an environment variable, the command line, or the default.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.config import AT_START, Settings

DEFAULT: Final = "default"
MASK: Final = "***"
USER_INFO: Final = re.compile(r"(://[^:@/]*:).*@")
PASSWORD: Final = re.compile(r"(password=)[^&]*", re.IGNORECASE)
"""Passwords of a URL: before the host, and in the query (`password`, `sslpassword`)."""


def without_secrets(value: object) -> object:
    """Return the value of a setting as people may see it: a store's URL without its password."""
    if not isinstance(value, str):
        return value
    return PASSWORD.sub(rf"\1{MASK}", USER_INFO.sub(rf"\1{MASK}@", value))


def changed_settings(settings: Settings) -> dict[str, object]:
    """Return the start-up settings that differ from their defaults, by name, without secrets."""
    return {str(row["setting"]): row["value"] for row in start_rows(settings) if row["value"] != row["default"]}


def start_rows(settings: Settings) -> list[dict[str, object]]:
    """Return all start-up settings, in the order of the documentation."""
    default = Settings()
    return [
        {
            "setting": name.replace("_", "-"),
            "value": without_secrets(getattr(settings, name)),
            "default": getattr(default, name),
            "from": settings.sources.get(name, DEFAULT),
        }
        for name in AT_START
    ]


def table_rows(settings: Settings) -> list[dict[str, object]]:
    """Return the tables of the settings file that are no settings by pattern; their secrets are masked."""
    found: dict[str, object] = {}
    if settings.users is not None:
        found["users"] = {user.name: MASK for user in settings.users}
    if settings.tokens is not None:
        found["oauth"] = "configured"
    if settings.back_end is not None:
        found["auth-http"] = "configured"
    if settings.tls is not None:
        found["tls"] = {"certificate": str(settings.tls.files.certificate), "names": sorted(settings.tls.names)}
    return [
        {"setting": f"[{name}]", "value": value, "default": None, "from": str(settings.file)}
        for name, value in found.items()
    ]
