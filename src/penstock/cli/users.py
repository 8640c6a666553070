"""Commands that take a password: users add and passwd.

The password is hashed here, and is never an argument of a command.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import click

from penstock.cli.common import asked, print_result, say
from penstock.cli.parameters import Json, Url, command, option
from penstock.errors import ConfigError
from penstock.operations.commands import unknown_tags

TAGS = "Tags with commas: administrator, monitoring, policymaker, management."
PasswordFile = Annotated[Path | None, "Read the password from a file; - is the standard input."]
PasswordEnv = Annotated[str | None, option("Read the password from an environment variable.", "NAME")]


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
    # These modules belong to the broker's side, which a client has installed too; only this command needs them.
    from penstock.access.password_hash import SALT, SCRYPT, SCRYPT_SALT, derive_scram_keys, hash_password, scram_text

    hashed = hash_password(password, os.urandom(SCRYPT_SALT))
    found: dict[str, object] = {"password_hash": hashed.text(), "hashing_algorithm": SCRYPT}
    keys = derive_scram_keys(password, os.urandom(SALT))
    return found if keys is None else {**found, "scram_secret": scram_text(keys)}


@command("add")
def add_user(
    name: str,
    tags: Annotated[str, option(TAGS, default="")],
    password_file: PasswordFile,
    password_env: PasswordEnv,
    no_password: Annotated[bool, "Add a user without a login by password."],
    as_json: Json,
    url: Url,
) -> None:
    """Add user NAME, without permissions until `penstock permissions set`. The password is asked for.

    For example: penstock users add anna --tags monitoring
    """
    tagged = [tag for tag in (each.strip() for each in tags.split(",")) if tag]
    secrets = {} if no_password else _secrets(_password(password_file, password_env))
    answer = asked(url, "user.declare", name=name, tags=tagged, new=True, **secrets)
    print_result(as_json, answer, f"user {name} is added; `penstock permissions set {name} ...` permits something")
    for sentence in unknown_tags({"tags": tagged}):
        say(sentence, err=True)


@command("passwd")
def change_password(
    name: Annotated[str, option(names="users")],
    password_file: PasswordFile,
    password_env: PasswordEnv,
    as_json: Json,
    url: Url,
) -> None:
    """Change the password of user NAME; connections stay.

    For example: penstock users passwd anna --password-file secret
    """
    answer = asked(url, "user.password", name=name, **_secrets(_password(password_file, password_env)))
    print_result(as_json, answer, f"user {name} has a new password")
