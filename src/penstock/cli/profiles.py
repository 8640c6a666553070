"""Profiles: named brokers in a file, with their URL, files for TLS and file of the password."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote, urlsplit, urlunsplit

from penstock.errors import ConfigError
from penstock.texts import hint, nearest

FILE_VARIABLE: Final = "PENSTOCK_PROFILES"
"""Environment variable with the path of the file."""
PROFILE_VARIABLE: Final = "PENSTOCK_PROFILE"
"""Environment variable with the name of a profile."""
DEFAULT_PROFILE: Final = "default"
"""Profile that is used when nothing else names a broker."""
KEYS: Final = ("url", "password-file", "cacert", "client-cert", "client-key")
OCTETS_MAX: Final = 1024 * 1024
"""Largest file of profiles, in octets."""


class Profile(NamedTuple):
    """Broker of a profile; an empty text where the profile says nothing."""

    url: str
    cacert: str = ""
    client_cert: str = ""
    client_key: str = ""


def profiles_file(environment: Mapping[str, str]) -> Path:
    """Return the path of the file: `PENSTOCK_PROFILES`, or penstock/profiles.toml in the XDG configuration folder."""
    given = environment.get(FILE_VARIABLE)
    if given:
        return _expanded(given)
    folder = environment.get("XDG_CONFIG_HOME") or "~/.config"
    return _expanded(folder) / "penstock" / "profiles.toml"


def _expanded(text: str) -> Path:
    """Return a path with the home directory in place of ~; as it is if the system knows none, as in some containers."""
    return Path(os.path.expanduser(text))  # The method of Path raises then.


def read_profiles(path: Path) -> dict[str, dict[str, str]]:
    """Return the profiles of a file by name, {} without a file. Raises ConfigError."""
    if not os.path.exists(path):
        return {}
    import tomllib  # Most commands have no file of profiles, and start without it.

    try:
        with path.open("rb") as file:
            octets = file.read(OCTETS_MAX + 1)
        if len(octets) > OCTETS_MAX:
            raise ConfigError(f"'{path}' has more than {OCTETS_MAX:,} octets, which no file of profiles needs")
        found = tomllib.loads(octets.decode())
    except OSError as error:
        raise ConfigError(f"cannot read the profiles in '{path}': {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"'{path}' is not TOML: {error}") from None
    for name, table in found.items():
        _check(path, name, table)
    return found


def _check(path: Path, name: str, table: object) -> None:
    """Check one profile. Raises ConfigError."""
    if not isinstance(table, dict):
        raise ConfigError(f"'{path}': '{name}' is no profile: write [{name}] and its url below")
    for key, value in table.items():
        if key not in KEYS:
            raise ConfigError(f"'{path}': unknown key '{key}' in profile {name}; {hint(key, KEYS)}")
        if not isinstance(value, str):
            raise ConfigError(f"'{path}': {key} of profile {name} must be a text in quotes")
    if "url" not in table:
        raise ConfigError(f"'{path}': profile {name} has no url")


def profile_of(path: Path, profiles: dict[str, dict[str, str]], name: str) -> Profile:
    """Return a profile by name, with paths relative to the file's folder. Raises ConfigError."""
    if name not in profiles:
        near = nearest(name, profiles)
        known = ", ".join(sorted(profiles)[:20]) or "none"
        clause = f"did you mean {near}?" if near else f"known are: {known}"
        raise ConfigError(f"no profile '{name}' in '{path}'; {clause}")
    table = profiles[name]
    cacert, client_cert, client_key = (_placed(path, table.get(key, "")) for key in KEYS[2:])
    url = table["url"]
    if "password-file" in table:
        url = _with_password(path, name, url, _placed(path, table["password-file"]))
    return Profile(url, cacert, client_cert, client_key)


def _placed(path: Path, file: str) -> str:
    return str(path.parent / _expanded(file)) if file else ""


def _with_password(path: Path, name: str, url: str, file: str) -> str:
    """Return a URL with the password of a file. Raises ConfigError."""
    try:
        password = Path(file).read_text().rstrip("\r\n")
        parts = urlsplit(url)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"'{path}': cannot read the password-file '{file}' of profile {name}: {reason}") from None
    except ValueError:  # Its text may repeat a password.
        raise ConfigError(f"'{path}': the url of profile {name} cannot be read") from None
    user, at, host = parts.netloc.rpartition("@")
    if not at or ":" in user:
        raise ConfigError(f"'{path}': with a password-file, the url of profile {name} has a user and no password")
    return urlunsplit(parts._replace(netloc=f"{user}:{quote(password, safe='')}@{host}"))


def exposed(path: Path, profiles: dict[str, dict[str, str]]) -> str | None:
    """Return a warning if others can read a password of the file, else None."""
    open_files = [path] if any(_holds_password(table["url"]) for table in profiles.values()) else []
    open_files += [
        Path(_placed(path, table["password-file"])) for table in profiles.values() if "password-file" in table
    ]
    for each in open_files:
        try:
            mode = each.stat().st_mode
        except OSError:
            continue
        if os.name == "posix" and mode & (stat.S_IRGRP | stat.S_IROTH):
            return f"others can read the password in '{each}': `chmod 600 '{each}'` keeps it from them"
    return None


def _holds_password(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return True
    return bool(parts.password) or "password=" in parts.query
