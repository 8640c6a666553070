"""Command `messages browse`: messages of a queue in a table or as JSON lines, without taking them."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any, Final

from penstock.cli.common import control_session, interruptible, say, say_json
from penstock.cli.messages import Bodies, Queue, Shown
from penstock.cli.parameters import Url, command, option
from penstock.cli.progress import Progress
from penstock.cli.tables import WIDE_HINT, table
from penstock.cli.whole_bodies import say_whole
from penstock.errors import ConfigError
from penstock.settings.kind import BYTES, whole
from penstock.texts import rounded_bytes, shown_age

LIMIT: Final = 100
"""Messages that are shown by default."""
ROWS_AT_ONCE: Final = 500
"""Rows of a table, which has the width of its widest cells."""
SHOWN_LETTERS: Final = 60
"""Most characters of a body in a table."""
FILTER: Final = "Show only messages that match this selector, such as 'colour = ''red'' AND size > 5'."
KEY: Final = "Show only messages with this routing key; * stands for any text."
HEADER: Final = "Show only messages with this header; may be repeated."
BODY: Final = "Show only messages with this text in their body."
REASON: Final = "Show only dead letters that died for this reason, such as rejected."
FROM: Final = "Begin at this position of the queue, or offset of the stream; default: at the oldest message."
TRUNCATE: Final = "Show at most this many bytes of a body; default and most: 1MiB."
WIDE: Final = "Show all columns on a terminal, with whole cells, also where lines are wider than it."
WHOLE: Final = "With --json: print whole bodies, also above 1 MiB, which are in base64 then."
HEADS: Final = ("position", "state", "age", "size", "exchange", "routing key", "holder", "body")


@command()
def browse(
    queue: Queue,
    filter: Annotated[str, option(FILTER, "SELECTOR", "--filter", default="")],
    key: Annotated[str, option(KEY, "KEY", default="")],
    header: Annotated[tuple[str, ...], option(HEADER, "NAME=VALUE")],
    body: Annotated[str, option(BODY, "TEXT", default="")],
    reason: Annotated[str, option(REASON, "REASON", default="")],
    limit: Annotated[int, option("Show at most N messages.", "N", "-n --limit", kind=whole(1), default=LIMIT)],
    start: Annotated[int, option(FROM, "POSITION", "--from", kind=whole(0), default=0)],
    truncate: Annotated[int | None, option(TRUNCATE, "BYTES", kind=BYTES)],
    as_json: Bodies,
    whole_bodies: Annotated[bool, option(WHOLE, option="--whole")],
    wide: Annotated[bool, WIDE],
    progress: Shown,
    url: Url,
) -> None:
    """Show messages of QUEUE without taking them: ready ones, unacknowledged ones with their holder, and paged ones.

    No message is marked as delivered, and no consumer notices. The state is ready, unacked (a consumer has the message)
    or paged (the message is only on the disk). Messages that move meanwhile may be missing.

    For example: penstock messages browse orders, or
    penstock messages browse failed --reason rejected --body 4711, or
    penstock messages browse orders --filter "type = 'invoice'" --json --limit 100000
    """
    if whole_bodies and (truncate is not None or not as_json):
        raise ConfigError("--whole is for --json without --truncate: a table shows the beginnings of bodies")
    shown = Progress(progress, mixed=True)
    with interruptible(), control_session(url) as connection:
        found = connection.browse(
            queue, filter=filter, limit=limit + 1, start=start, truncate=truncate, key=key, headers=header, body=body,
            reason=reason,
        )  # fmt: skip
        rows, count, truncated = islice(found, limit), 0, 0
        if as_json:
            for row in rows:
                count += 1
                if row.get("truncated") and not (whole_bodies and say_whole(connection, queue, row)):
                    truncated += 1
                    say_json(row)
                elif not row.get("truncated"):
                    say_json(row)
                shown.tell(f"{count:,} messages printed")
            shown.end()
        else:
            while some := list(islice(rows, ROWS_AT_ONCE)):
                table(HEADS, list(_cells(some)), hint=WIDE_HINT, whole=wide)
                count += len(some)
        following = next(found, None)
    if not count:
        since = f" from position {start:,} on" if start else ""
        say(
            f"queue '{queue}' has no {'matching ' if filter or key or header or body or reason else ''}message{since}",
            err=True,
        )
    if truncated:
        _say_truncated(truncated, whole_bodies)
    if following is not None:
        say(f"more messages follow: --from {following['position']}", err=True)


def _say_truncated(truncated: int, whole_bodies: bool) -> None:
    bodies = "1 body is" if truncated == 1 else f"{truncated:,} bodies are"
    if whole_bodies:
        say(f"{bodies} truncated: the queue had the message no more when its body was read", err=True)
    else:
        say(f"{bodies} truncated: with --json --whole, whole bodies are printed", err=True)


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
