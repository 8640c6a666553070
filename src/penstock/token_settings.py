"""Tokens in the settings file: `[oauth]`, with the names of RabbitMQ's settings `auth_oauth2.*` where it has them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from penstock.errors import ConfigError
from penstock.management.token_check import TokenKeys, TokenPolicy
from penstock.web_url import url_fault

KEYS_SOURCE: Final = "keys"
RESOURCE_SERVER: Final = "resource_server_id"
TEXTS: Final = (RESOURCE_SERVER, KEYS_SOURCE, "scope_prefix", "issuer")
LISTS: Final = ("preferred_username_claims", "additional_scopes_key")
LEEWAY: Final = "leeway_s"
LEEWAY_MOST: Final = 3_600


class TokenSettings:
    """Contents of `[oauth]`."""

    def __init__(self, texts: dict[str, str], lists: dict[str, list[str]], leeway_s: int, keys: str) -> None:
        self.texts = texts
        self.lists = lists
        self.leeway_s = leeway_s
        self.keys = keys
        """Path or URL of the keys."""

    def policy(self, keys: TokenKeys) -> TokenPolicy:
        """Return the policy with keys from the source."""
        found = TokenPolicy(self.texts[RESOURCE_SERVER], keys)
        found.scope_prefix = self.texts.get("scope_prefix", found.scope_prefix)
        found.issuer = self.texts.get("issuer", "")
        found.leeway_s = self.leeway_s
        found.name_claims = self.lists.get("preferred_username_claims", []) + found.name_claims
        found.scope_claims = found.scope_claims + self.lists.get("additional_scopes_key", [])
        return found


def read_tokens(table: dict[str, Any], folder: Path, error: Callable[[str, str], ConfigError]) -> TokenSettings:
    """Read `[oauth]`. `folder` is that of the settings file; `error` makes an error for a key, with its line.

    Raises ConfigError.
    """
    for key in table:
        if key not in (*TEXTS, *LISTS, LEEWAY):
            raise error(key, f"unknown setting {key} in [oauth]; known are {', '.join((*TEXTS, *LISTS, LEEWAY))}")
    texts: dict[str, str] = {}
    for key in TEXTS:
        value = table.get(key)
        if value is not None and not isinstance(value, str):
            raise error(key, f"{key} in [oauth] must be a string, not {value!r}")
        if value is not None:
            texts[key] = value
    for key in (RESOURCE_SERVER, KEYS_SOURCE):
        if not texts.get(key):
            raise error(key, f"[oauth] needs {key}")
    lists: dict[str, list[str]] = {}
    for key in LISTS:
        value = table.get(key, [])
        given = [value] if isinstance(value, str) else value
        if not isinstance(given, list) or not all(isinstance(item, str) and item for item in given):
            raise error(key, f"{key} in [oauth] must be a list of claims, not {value!r}")
        lists[key] = given
    leeway = table.get(LEEWAY, 30)
    if not isinstance(leeway, int) or isinstance(leeway, bool) or not 0 <= leeway <= LEEWAY_MOST:
        raise error(LEEWAY, f"{LEEWAY} in [oauth] must be between 0 and {LEEWAY_MOST}, not {leeway!r}")
    return TokenSettings(texts, lists, leeway, _source(texts[KEYS_SOURCE], folder, error))


def _source(keys: str, folder: Path, error: Callable[[str, str], ConfigError]) -> str:
    if "://" in keys:
        fault = url_fault(keys, query=True)
        if fault:
            raise error(KEYS_SOURCE, f"{KEYS_SOURCE} in [oauth] {fault}")
        return keys
    path = folder / keys
    if not path.is_file():
        raise error(KEYS_SOURCE, f"keys in [oauth] name the file '{path}', which is not there")
    return str(path)
