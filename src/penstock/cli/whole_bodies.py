"""Messages with large bodies as JSON lines: a body is read from the broker in pieces, and printed in base64."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, Final

import click

from penstock.cli.common import writing
from penstock.content.message_rows import BASE64
from penstock.texts import printable_json

if TYPE_CHECKING:
    from penstock.client.blocking import Connection

PIECE_BYTES: Final = 768 * 1024
"""Bytes of a large body in one request."""
SPOOLED_BYTES: Final = 8 * 1024 * 1024
"""Bytes of a large body in memory; more are in a temporary file until the line is printed."""


def say_whole(connection: Connection, queue: str, row: dict[str, Any]) -> bool:
    """Print a message as JSON with its whole body, read in pieces; return False if the message is gone."""
    import tempfile  # Few commands need it.

    with tempfile.SpooledTemporaryFile(SPOOLED_BYTES) as body:
        left = b""
        at = 0
        while at < row["payload_bytes"]:
            piece = _piece(connection, queue, row["position"], at)
            if not piece:
                return False
            at += len(piece)
            left += piece
            even = len(left) - len(left) % 3
            body.write(base64.b64encode(left[:even]))
            left = left[even:]
        body.write(base64.b64encode(left))
        body.seek(0)
        head = {name: value for name, value in row.items() if name not in ("payload", "truncated")}
        head["payload_encoding"] = BASE64
        with writing():
            click.echo(printable_json(json.dumps(head, ensure_ascii=False))[:-1] + ', "payload": "', nl=False)
            while part := body.read(PIECE_BYTES):
                click.echo(part.decode(), nl=False)
            click.echo('"}')
    return True


def _piece(connection: Connection, queue: str, position: int, at: int) -> bytes:
    """Return some bytes of a body from an index on; empty if the message is gone."""
    found = next(connection.browse(queue, limit=1, start=position, truncate=PIECE_BYTES, skip=at), None)
    if found is None or found["position"] != position:
        return b""
    payload: str = found["payload"]
    return base64.b64decode(payload) if found["payload_encoding"] == BASE64 else payload.encode()
