"""Users of the settings file: `[users]` has name = "password", or name = { password = "...", tags = [...] }.

Instead of `password` there may be `password_file` (a path, relative to the settings file), `password_env` (the name of
an environment variable) or `password_hash` (RabbitMQ's in base64, or scrypt). Without `permissions` a user has all
permissions in every virtual host. Errors show no passwords.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from penstock.access.access_table import GUEST, check_limits, check_user_name
from penstock.access.password_hash import PasswordHash, file_password, read_hash
from penstock.access.permission import ADMINISTRATOR, TAGS, Permission, TopicPermission
from penstock.access.user import FILE, USER_LIMITS, User
from penstock.errors import BrokerError, ConfigError
from penstock.settings.file_tables import Refuse
from penstock.settings.kind import INTEGER, INVALID, TEXT, Kind, Strings
from penstock.texts import hint

SECRETS: Final = ("password", "password_file", "password_env", "password_hash")
"""Keys for a user's password; a user has one of them."""
USER_KEYS: Final = frozenset((*SECRETS, "hashing_algorithm", "tags", "permissions", "topic_permissions", "limits"))
"""Keys of a user's table."""
KNOWN_TAGS: Final = Strings(choices=TAGS)
SECRET_OCTETS: Final = 4096
"""Largest file with a password, in bytes."""


def read_users(
    users: Mapping[str, Any],
    folder: Path,
    refuse: Refuse,
    environment: Mapping[str, str] = os.environ,
) -> list[User]:
    """Read `[users]`. `folder` is the folder of the settings file; `refuse` makes an error for a user, with its line.

    Without a list of tags the first user and guest are administrators. Raises ConfigError.
    """
    result: list[User] = []
    for name, given in users.items():
        table = {"password": given} if isinstance(given, str) else given
        unknown = next(iter(table.keys() - USER_KEYS), None) if isinstance(table, dict) else None
        if unknown is not None:
            sentence = f"user '{name}' in [users] has the unknown key {unknown}; {hint(unknown, sorted(USER_KEYS))}"
            raise refuse(("users", name), sentence)
        if not isinstance(table, dict) or len(table.keys() & set(SECRETS)) != 1:
            raise refuse(
                ("users", name),
                f"user '{name}' in [users] must be a password in quotes, or a table: "
                '{ password = "...", tags = ["administrator"] }; '
                f"it has one of {', '.join(SECRETS)}, and may have hashing_algorithm, tags, permissions, "
                "topic_permissions and limits",
            )
        try:
            check_user_name(name)
            user = User(name, _password(table, folder, environment), _tags(name, table, first=not result), FILE)
            _permit(user, table)
        except (BrokerError, ConfigError) as refused:
            raise refuse(("users", name), f"user '{name}' in [users]: {refused}") from None
        result.append(user)
    return result


def has_clear_passwords(users: Mapping[str, Any]) -> bool:
    """Return whether `[users]` itself contains a password in clear text, and not a hash or a reference."""
    return any(isinstance(given, str) or "password" in given for given in users.values())


def is_open_to_others(path: Path) -> bool:
    """Return whether a file can be read by users other than its owner and its group; False for a missing file."""
    try:
        return os.name == "posix" and bool(path.stat().st_mode & stat.S_IROTH)
    except OSError:
        return False


def _password(table: dict[str, Any], folder: Path, environment: Mapping[str, str]) -> PasswordHash | None:
    for key in (*SECRETS, "hashing_algorithm"):
        _read(TEXT, key, table.get(key, ""), secret=True)
    if "password_hash" in table:
        return read_hash(table["password_hash"], table.get("hashing_algorithm", ""))
    if "hashing_algorithm" in table:
        raise ConfigError("hashing_algorithm is for a password_hash only")
    if "password" in table:
        return file_password(table["password"])
    if "password_env" in table:
        name = table["password_env"]
        if name not in environment:
            raise ConfigError(f"the environment variable {name}, which password_env names, is not set")
        return file_password(environment[name])
    path = folder / table["password_file"]
    try:
        with path.open("rb") as file:
            text = file.read(SECRET_OCTETS + 1).decode()
    except (OSError, ValueError) as failed:
        reason = failed.strerror if isinstance(failed, OSError) else "it is not UTF-8"
        raise ConfigError(f"cannot read password_file '{path}': {reason}") from None
    return file_password(text.rstrip("\r\n"))


def _read(kind: Kind, name: str, value: object, secret: bool = False) -> Any:
    """Return a value by its kind. Raises ConfigError, which names the type of a secret alone."""
    found = kind.parse(value, True)
    if found is INVALID:
        raise ConfigError(kind.fault(name, value, secret))
    return found


def _tags(name: str, table: dict[str, Any], first: bool) -> list[str]:
    if "tags" not in table:
        return [ADMINISTRATOR] if first or name == GUEST else []
    tags: list[str] = _read(KNOWN_TAGS, "tags", table["tags"])
    return tags


def _permit(user: User, table: dict[str, Any]) -> None:
    """Set permissions, topic permissions and limits of a user. Raises ConfigError, PreconditionFailed."""
    user.everywhere = "permissions" not in table
    for vhost, given in _table(table, "permissions").items():
        texts = _texts(given, ("configure", "write", "read"), f'permissions of vhost "{vhost}"')
        permission = Permission(texts[0], texts[1], texts[2])
        permission.check(user.name, vhost)
        user.permissions[vhost] = permission
    for vhost, exchanges in _table(table, "topic_permissions").items():
        user.topic_permissions[vhost] = {}
        for exchange, given in _table({vhost: exchanges}, vhost).items():
            texts = _texts(given, ("write", "read"), f'topic_permissions of vhost "{vhost}"')
            topic = TopicPermission(texts[0], texts[1])
            topic.check(user.name, vhost, exchange)
            user.topic_permissions[vhost][exchange] = topic
    limits = {limit: _read(INTEGER, f"limit {limit}", value) for limit, value in _table(table, "limits").items()}
    check_limits(limits, USER_LIMITS)
    user.limits = {limit: value for limit, value in limits.items() if value >= 0}


def _table(table: dict[str, Any], key: str) -> dict[str, Any]:
    inner = table.get(key, {})
    if not isinstance(inner, dict):
        raise ConfigError(f"{key} must be a table")
    return inner


def _texts(given: object, names: tuple[str, ...], what: str) -> list[str]:
    if (
        not isinstance(given, dict)
        or given.keys() != set(names)
        or not all(isinstance(each, str) for each in given.values())
    ):
        raise ConfigError(f"{what} must be a table of the expressions {', '.join(names)}")
    return [given[name] for name in names]
