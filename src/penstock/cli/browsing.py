"""Command `messages browse`: messages of a queue in a table or as JSON lines, without taking them."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any, Final

from penstock.cli.common import control_session, interruptible, say, say_json, table
from penstock.cli.messages import Bodies, Queue, Shown
from penstock.cli.parameters import Url, command, option
from penstock.cli.progress import Progress
from penstock.settings.kind import BYTES, whole
from penstock.texts import rounded_bytes, shown_age

LIMIT: Final = 100
"""Messages that are shown by default."""
ROWS_AT_ONCE: Final = 500
"""Rows of a table, which has the width of its widest cells."""
SHOWN_LETTERS: Final = 60
"""Most characters of a body in a table."""
FILTER: Final = "Show only messages that match this selector, such as 'colour = ''red'' AND size > 5'."
FROM: Final = "Begin at this position of the queue; default: at its oldest message."
TRUNCATE: Final = "Show at most this many bytes of a body; default and most: 1MiB."
HEADS: Final = ("position", "state", "age", "size", "exchange", "routing key", "holder", "body")


@command()
def browse(
    queue: Queue,
    filter: Annotated[str, option(FILTER, "SELECTOR", "--filter", default="")],
    limit: Annotated[int, option("Show at most N messages.", "N", "-n --limit", kind=whole(1), default=LIMIT)],
    start: Annotated[int, option(FROM, "POSITION", "--from", kind=whole(1), default=1)],
    truncate: Annotated[int | None, option(TRUNCATE, "BYTES", kind=BYTES)],
    as_json: Bodies,
    progress: Shown,
    url: Url,
) -> None:
    """Show messages of QUEUE without taking them: ready ones, unacknowledged ones with their holder, and paged ones.

    No message is marked as delivered, and no consumer notices. The state is ready, unacked (a consumer has the message)
    or paged (the message is only on the disk). Messages that move meanwhile may be missing.

    For example: penstock messages browse orders, or
    penstock messages browse orders --filter "type = 'invoice'" --json --limit 100000
    """
    shown = Progress(progress, mixed=True)
    with interruptible(), control_session(url) as connection:
        found = connection.browse(queue, filter=filter, limit=limit + 1, start=start, truncate=truncate)
        rows, count, truncated = islice(found, limit), 0, 0
        if as_json:
            for row in rows:
                say_json(row)
                count += 1
                truncated += bool(row.get("truncated"))
                shown.tell(f"{count:,} messages printed")
            shown.end()
        else:
            while some := list(islice(rows, ROWS_AT_ONCE)):
                table(HEADS, list(_cells(some)))
                count += len(some)
        following = next(found, None)
    if not count:
        say(f"queue '{queue}' has no {'matching ' if filter else ''}message from position {start:,} on", err=True)
    if truncated:
        bodies = "1 body is" if truncated == 1 else f"{truncated:,} bodies are"
        say(f"{bodies} truncated: `penstock queues consume {queue} --json` prints whole bodies", err=True)
    if following is not None:
        say(f"more messages follow: --from {following['position']}", err=True)


def _cells(rows: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    for row in rows:
        holder = row["holder"] or ""
        if holder and row["consumer"]:
            holder += f" {row['consumer']}"
        size = rounded_bytes(row["payload_bytes"])
        origin = (row["exchange"], row["routing_key"])
        yield (f"{row['position']}", row["state"], shown_age(row["age_s"]), size, *origin, holder, _beginning(row))


def _beginning(row: dict[str, Any]) -> str:
    """Return the beginning of a body: its text, or bytes in hexadecimal digits."""
    payload: str = row["payload"]
    if row["payload_encoding"] == "string":
        cut = len(payload) > SHOWN_LETTERS or row.get("truncated")
        return payload[:SHOWN_LETTERS] + ("…" if cut else "")
    octets = base64.b64decode(payload)
    return "0x" + octets[: SHOWN_LETTERS // 2 - 1].hex() + ("…" if len(octets) >= SHOWN_LETTERS // 2 else "")
