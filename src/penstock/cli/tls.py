"""`penstock tls`: certificates for development, and the reload of a broker's certificates."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Annotated

from penstock.cli.common import print_result
from penstock.cli.parameters import Json, command, option
from penstock.errors import ConfigError
from penstock.settings.kind import whole

FILES = ("ca.pem", "server.pem", "server-key.pem", "client.pem", "client-key.pem", "penstock.toml")
SETTINGS = """\
# Settings for development, made by `penstock tls self-signed`: penstock serve --config penstock.toml
[broker]
listen-tls = ["127.0.0.1:5671"]

[tls]
certificate = "server.pem"
key = "server-key.pem"
ca = "ca.pem"
client-certificates = "optional"
"""


@command("self-signed")
def self_signed(
    folder: Annotated[Path, option(metavar="DIR")],
    names: Annotated[tuple[str, ...], option("Name or address of the server besides localhost.", "HOST", "--name")],
    user: Annotated[str, option("User that the client's certificate names.", default="guest")],
    days: Annotated[int, option("Days of validity.", kind=whole(1, 3650), default=365)],
    as_json: Json,
) -> None:
    """Make an authority for development in DIR, and certificates of it for a server and a client.

    The authority's key is not kept. For example: penstock tls self-signed ./tls && penstock serve --config
    tls/penstock.toml
    """
    try:
        from penstock.cli import self_signed as made
    except ImportError as error:
        raise ConfigError(
            f"`penstock tls self-signed` needs the package {error.name}: pip install 'penstock[tls]'"
        ) from None
    there = [name for name in FILES if (folder / name).exists()]
    if there:
        raise ConfigError(f"'{folder / there[0]}' is there already: give an empty directory")
    texts = made.make(("localhost", socket.gethostname(), "127.0.0.1", "::1", *names), user, days)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in {**texts, "penstock.toml": SETTINGS.encode()}.items():
            mode = 0o600 if "key" in name else 0o644
            with open(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(text)
    except OSError as error:
        raise ConfigError(f"cannot write to '{folder}': {error.strerror}") from None
    print_result(
        as_json,
        {"folder": str(folder), "files": list(FILES), "days": days},
        f"certificates for {days} days are in '{folder}'; start with `penstock serve --config {folder}/penstock.toml`",
        f"and connect with `penstock status --url amqps://localhost --cacert {folder}/ca.pem`",
    )
