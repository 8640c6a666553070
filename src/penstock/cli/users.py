"""Commands on users, permissions and limits. A password is hashed here, and never an argument of a command."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click

from penstock.cli.absent import IF_EXISTS, maybe_absent
from penstock.cli.common import JSON, URL, OneOf, control_session, main, print_result, report_errors, say, say_json
from penstock.cli.completion import names_by_scope, names_of
from penstock.cli.lists import LIST, Columns, Shown, Value, chosen, print_list
from penstock.errors import ConfigError, PenstockError
from penstock.texts import nearest

PAGE: Final = 1000
"""Users asked for at once."""
VHOST = click.option("--vhost", default="/", show_default=True, help="In this virtual host.")
PASSWORD_FILE = click.option(
    "--password-file", type=click.Path(path_type=Path), help="Read the password from a file; - is the standard input."
)
PASSWORD_ENV = click.option("--password-env", metavar="NAME", help="Read the password from an environment variable.")
TAGS = click.option("--tags", default="", help="Tags with commas: administrator, monitoring, policymaker, management.")


def _password(file: Path | None, variable: str | None) -> str:
    """Return a password from a file, a variable or a prompt. Raises ConfigError."""
    if file is not None and variable is not None:
        raise ConfigError("give one of --password-file and --password-env")
    if variable is not None:
        if variable not in os.environ:
            raise ConfigError(f"the environment variable {variable} is not set")
        return os.environ[variable]
    if file is None:
        asked: str = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        return asked
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
    except (OSError, UnicodeDecodeError) as failed:
        reason = failed.strerror if isinstance(failed, OSError) else "it is not UTF-8"
        raise ConfigError(f"cannot read the password file '{file}': {reason}") from None
    return text.rstrip("\r\n")


def _secrets(password: str) -> dict[str, object]:
    """Return hash and keys of a password, for a request."""
    # They are of the broker's side, which a client has installed too; only this command needs them.
    from penstock.access.password_hash import SCRYPT, SCRYPT_SALT, hash_password
    from penstock.access.scram import SALT, derive_scram_keys, scram_text

    hashed = hash_password(password, os.urandom(SCRYPT_SALT))
    found: dict[str, object] = {"password_hash": hashed.text(), "hashing_algorithm": SCRYPT}
    keys = derive_scram_keys(password, os.urandom(SALT))
    return found if keys is None else {**found, "scram_secret": scram_text(keys)}


def _split(tags: str) -> list[str]:
    return [tag for tag in (each.strip() for each in tags.split(",")) if tag]


def _tell_unknown(tags: Sequence[str]) -> None:
    """Tell of tags that permit nothing; they are kept for other programs, as in RabbitMQ."""
    from penstock.access.tags import TAGS as KNOWN

    for tag in tags:
        if tag not in KNOWN:
            near = nearest(tag, KNOWN)
            say(f"tag {tag} permits nothing{f'; did you mean {near}?' if near else ''}", err=True)


def _request(url: str, operation: str, fields: dict[str, object]) -> dict[str, Any]:
    with control_session(url) as control:
        return control.request(operation, **fields)


def _users(url: str, user: str | None) -> Iterator[dict[str, Any]]:
    fields: dict[str, object] = {"count": PAGE} if user is None else {"user": user}
    with control_session(url) as control:
        more = True
        while more:
            answer = control.request("user.list", **fields)
            yield from answer["users"]
            more = answer["more"]
            fields["after"] = answer["users"][-1]["name"] if answer["users"] else ""


@main.group()
def users() -> None:
    """Add, change, delete and list users."""


@users.command("add")
@click.argument("name")
@TAGS
@PASSWORD_FILE
@PASSWORD_ENV
@click.option("--no-password", is_flag=True, help="Add a user who cannot log in with a password.")
@JSON
@URL
def add_user(
    name: str,
    tags: str,
    password_file: Path | None,
    password_env: str | None,
    no_password: bool,
    as_json: bool,
    url: str,
) -> None:
    """Add user NAME, who may do nothing until `penstock permissions set`. The password is asked for."""
    with report_errors():
        secrets = {} if no_password else _secrets(_password(password_file, password_env))
        answer = _request(url, "user.declare", {"name": name, "tags": _split(tags), "new": True, **secrets})
        print_result(as_json, answer, f"user {name} is added; `penstock permissions set {name} ...` permits something")
        _tell_unknown(_split(tags))


@users.command("passwd")
@click.argument("name", shell_complete=names_of("users"))
@PASSWORD_FILE
@PASSWORD_ENV
@JSON
@URL
def change_password(name: str, password_file: Path | None, password_env: str | None, as_json: bool, url: str) -> None:
    """Change the password of user NAME; connections stay."""
    with report_errors():
        answer = _request(url, "user.password", {"name": name, **_secrets(_password(password_file, password_env))})
        print_result(as_json, answer, f"user {name} has a new password")


@users.command("tags")
@click.argument("name", shell_complete=names_of("users"))
@click.argument("tags", nargs=-1)
@JSON
@URL
def change_tags(name: str, tags: tuple[str, ...], as_json: bool, url: str) -> None:
    """Give user NAME these TAGS and no others; none takes all away."""
    with report_errors():
        answer = _request(url, "user.tags", {"name": name, "tags": list(tags)})
        print_result(as_json, answer, f"user {name} has {'the tags ' + ', '.join(tags) if tags else 'no tags'}")
        _tell_unknown(tags)


@users.command("delete")
@click.argument("name", shell_complete=names_of("users"))
@IF_EXISTS
@JSON
@URL
def delete_user(name: str, if_exists: bool, as_json: bool, url: str) -> None:
    """Delete user NAME with its permissions, and close its connections."""
    absent = maybe_absent(if_exists, as_json, {"user": name}, f"user {name} does not exist")
    with report_errors():
        with control_session(url) as control, absent:
            try:
                control.request("user.delete", name=name)
            except PenstockError as closed:
                if f"user '{name}' was deleted" not in str(closed):  # A user that deletes itself is cut off.
                    raise
        print_result(as_json, {}, f"user {name} is deleted")


@users.command("list")
@LIST
@URL
def list_users(shown: Shown, url: str) -> None:
    """List users, without their passwords.

    For example: penstock users list --filter tags~administrator
    """
    with report_errors():
        computed: dict[str, Value] = {
            "user": lambda item: item["name"],
            "from": lambda item: {"file": "settings file", "default": "default"}.get(item["source"], "store"),
            "virtual hosts": lambda item: (
                "everything" if item["everywhere"] else ", ".join(it["vhost"] for it in item["permissions"]) or None
            ),
        }
        texts = {"limits": _limits_text, "tags": lambda tags: ", ".join(tags) or "-"}
        columns = Columns(("user", "tags", "from", "virtual hosts", "limits"), computed, texts)
        print_list(_users(url, None), columns, shown, whole="users")


@main.group()
def permissions() -> None:
    """Set, clear and list permissions: expressions of RE2 for the names of queues and exchanges."""


@permissions.command("set")
@click.argument("user", shell_complete=names_of("users"))
@click.argument("expressions", nargs=-1, required=True)
@VHOST
@click.option("--topic", metavar="EXCHANGE", help="Set a topic permission for this exchange: WRITE READ.")
@JSON
@URL
def set_permission(
    user: str, expressions: tuple[str, ...], vhost: str, topic: str | None, as_json: bool, url: str
) -> None:
    """Permit USER what CONFIGURE WRITE READ match; '.*' is everything, '' nothing. It counts at once.

    For example: penstock permissions set anna '^anna-' '.*' '.*'
    """
    with report_errors():
        kinds = ("configure", "write", "read") if topic is None else ("write", "read")
        if len(expressions) != len(kinds):
            raise ConfigError(f"give {len(kinds)} expressions, {', '.join(kinds)}, not {len(expressions)}")
        fields: dict[str, object] = {"user": user, "vhost": vhost, **dict(zip(kinds, expressions, strict=True))}
        if topic is None:
            answer = _request(url, "permission.set", fields)
        else:
            answer = _request(url, "topic-permission.set", {**fields, "exchange": topic})
        where = f"vhost {vhost}" if topic is None else f"exchange {topic} in vhost {vhost}"
        print_result(as_json, answer, f"user {user} has a permission for {where}")


@permissions.command("clear")
@click.argument("user", shell_complete=names_of("users"))
@VHOST
@click.option("--topic", metavar="EXCHANGE", help="Clear the topic permission for this exchange.")
@IF_EXISTS
@JSON
@URL
def clear_permission(user: str, vhost: str, topic: str | None, if_exists: bool, as_json: bool, url: str) -> None:
    """Take away what USER may do, and close its connections there."""
    sentence = f"user {user} has no permission in vhost {vhost}"
    fields: dict[str, object] = {"user": user, "vhost": vhost}
    if topic is not None:
        fields["exchange"] = topic
    operation = "permission.clear" if topic is None else "topic-permission.clear"
    absent = maybe_absent(if_exists, as_json, {"user": user, "vhost": vhost}, sentence)
    with control_session(url) as control, absent:
        answer = control.request(operation, **fields)
        if not answer["cleared"] and not if_exists:
            raise ConfigError(f"user '{user}' has no such permission in vhost '{vhost}': nothing was changed")
        print_result(as_json, answer, sentence)


@permissions.command("list")
@click.option("--user", help="Only those of this user.")
@LIST
@URL
def list_permissions(user: str | None, shown: Shown, url: str) -> None:
    """List permissions and topic permissions.

    For example: penstock permissions list --user anna
    """
    with report_errors():
        rows: list[tuple[str, ...]] = []
        for each in _users(url, user):
            name = each["name"]
            if each["everywhere"]:
                rows.append((name, "(all others)", "", ".*", ".*", ".*"))
            for it in each["permissions"]:
                rows.append((name, it["vhost"], "", it["configure"], it["write"], it["read"]))
            for it in each["topic_permissions"]:
                rows.append((name, it["vhost"], it["exchange"] or "amq.default", "", it["write"], it["read"]))
        names = ("user", "vhost", "topic exchange", "configure", "write", "read")
        items = [dict(zip(names, row, strict=True)) for row in rows]
        print_list(items, Columns(names), shown, whole="permissions")


@main.group()
def limits() -> None:
    """Set, clear and list limits of users and virtual hosts."""


@limits.command("set")
@click.argument("scope", type=OneOf(["user", "vhost"]))
@click.argument("name", shell_complete=names_by_scope)
@click.argument("words", metavar="LIMIT=NUMBER...", nargs=-1, required=True)
@JSON
@URL
def set_limits(scope: str, name: str, words: tuple[str, ...], as_json: bool, url: str) -> None:
    """Set limits: max-connections and max-channels of a user, max-connections and max-queues of a vhost.

    For example: penstock limits set user anna max-connections=10
    """
    with report_errors():
        _set_limits(scope, name, dict(_limit(word) for word in words), as_json, url)


@limits.command("clear")
@click.argument("scope", type=OneOf(["user", "vhost"]))
@click.argument("name", shell_complete=names_by_scope)
@click.argument("names", metavar="LIMIT...", nargs=-1, required=True)
@JSON
@URL
def clear_limits(scope: str, name: str, names: tuple[str, ...], as_json: bool, url: str) -> None:
    """Remove limits of a user or of a virtual host."""
    with report_errors():
        _set_limits(scope, name, dict.fromkeys(names, -1), as_json, url)


@limits.command("list")
@LIST
@URL
def list_limits(shown: Shown, url: str) -> None:
    """List all limits of users and virtual hosts.

    For example: penstock limits list
    """
    with report_errors():
        answer = _request(url, "limit.list", {})
        scopes = ("user", "vhost")
        rows = [
            {"scope": scope, "name": name, "limits": each}
            for scope in scopes
            for name, each in answer[scope + "s"].items()
        ]
        columns = Columns(("scope", "name", "limits"), texts={"limits": _limits_text})
        if shown.as_json and not shown.columns:
            found = chosen(rows, columns, shown)[: shown.limit]
            say_json({f"{scope}s": {row["name"]: row["limits"] for row in found if row["scope"] == scope}
                      for scope in scopes})  # fmt: skip
            return
        print_list(rows, columns, shown, whole="limits")


def _set_limits(scope: str, name: str, given: dict[str, int], as_json: bool, url: str) -> None:
    answer = _request(url, "limit.set", {scope: name, "limits": given})
    changed = ", ".join(f"{limit}={value}" if value >= 0 else f"no {limit}" for limit, value in given.items())
    print_result(as_json, answer, f"{scope} {name} has {changed}")


def _limit(word: str) -> tuple[str, int]:
    name, _, value = word.partition("=")
    try:
        return name, int(value)
    except ValueError:
        raise ConfigError(f"'{word}' is not LIMIT=NUMBER, such as max-connections=10") from None


def _limits_text(given: dict[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in given.items()) or "-"
