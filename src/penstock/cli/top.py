"""`penstock top` and `penstock queues watch`: queues live in a terminal, or printed once."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections import deque
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import click

from penstock.cli import top_view
from penstock.cli.common import INTERRUPTED, Feed, say, say_json, say_missing, styled, writing
from penstock.cli.parameters import Url, command, option
from penstock.cli.tables import COLUMN_COLOURS, WIDER_HINT, left_out_line, table, terminal_columns
from penstock.errors import ConfigError, PenstockError
from penstock.settings.kind import seconds_from, whole
from penstock.texts import counted, printable, road_text, rounded_bytes, shown_age, shown_capacity, shown_percent

INTERVAL_S: Final = 1.0
"""Seconds between two pictures."""
QUEUES_PRINTED: Final = 20
"""Queues in one printed picture."""
LABEL_CELLS: Final = 9
VALUE_CELLS: Final = 34
"""Width of the texts before and after a sparkline."""
SAMPLES_MAX: Final = 1000
"""Samples that `watch` stores: more than any terminal is wide."""

SAMPLES: Final = "Stop after this number of samples."
ORDER: Final = "Show the queues in this order, the highest first."
LIMIT: Final = "Show at most N queues.  [default: 100 or 20]"
Interval = Annotated[float, option("Ask every S seconds.", "S", kind=seconds_from(0.1, 3600), default=INTERVAL_S)]


@command()
def top(
    interval: Interval,
    order: Annotated[str, option(ORDER, choices=tuple(top_view.ORDERS), default="blocked")],
    everywhere: Annotated[bool, "Show all virtual hosts, not only the one in --url."],
    once: Annotated[bool, "Print one picture and exit, as where the output is no terminal."],
    limit: Annotated[int | None, option(LIMIT, "N", kind=whole(1, 500))],
    as_json: Annotated[bool, option("Print the broker's answers once, for programs.", option="--json")],
    url: Url,
) -> None:
    """Show the queues live, blocked ones first: fill, rates, gates, and blocked producers with advice.

    Where the output is no terminal, or a dumb one: print one picture and exit. The live picture needs `pip install
    'penstock[terminal]'`. For example: penstock top, or penstock top --order messages --once
    """

    feed = Feed(url)
    live = not (once or as_json) and sys.stdout.isatty() and sys.stdin.isatty() and os.environ.get("TERM") != "dumb"
    if not live:
        fields: dict[str, object] = {"order": order, "count": limit or QUEUES_PRINTED, "everywhere": everywhere}
        try:
            _print_once(feed, fields, as_json)
        finally:
            feed.close()
        return
    try:
        from penstock.cli.top_screen import TopScreen
    except ImportError as error:
        raise ConfigError(
            f"the live picture needs the package {(error.name or 'textual').partition('.')[0]}: "
            "pip install 'penstock[terminal]'; `penstock top --once` prints a picture without it"
        ) from None
    fields = {"order": order, "everywhere": everywhere} | ({} if limit is None else {"count": limit})
    code = TopScreen(feed, fields, interval).run()
    sys.exit(code or 0)


def _print_once(feed: Feed, fields: dict[str, object], as_json: bool) -> None:
    """Print one picture, on a terminal with histories if it is wide enough."""
    width = 0 if as_json else terminal_columns() or 0
    found = feed.ask("top", fields | {"history": top_view.samples_wanted(width)})
    why = feed.ask("why", {})
    if as_json:
        say_json({"top": found, "why": why}, indent=2)
        return
    say_missing({str(each["shard"]): str(each["reason"]) for each in found.get("penstock.missing", ())})
    everywhere = fields.get("everywhere") is True
    say(top_view.headline(found, everywhere))
    for line in top_view.blocked_lines(why) or ["no producer is blocked"]:
        say(line)
    picture = top_view.picture_of(found["items"], everywhere, width)
    table(picture.heads, picture.rows, COLUMN_COLOURS)
    if picture.left_out:
        click.echo(left_out_line(picture.left_out, WIDER_HINT, width), err=True)
    more = found["sums"]["queues"] - len(found["items"])
    if more > 0:
        say(f"and {counted(more, 'more queue')}; --limit shows more")


@command()
def watch(
    queue: Annotated[str, option(names="queues")],
    interval: Interval,
    count: Annotated[int | None, option(SAMPLES, option="-n --count", kind=whole(1))],
    as_json: Annotated[bool, option("Print each sample as a JSON object.", option="--json")],
    url: Url,
) -> None:
    """Show the depth and the rates of QUEUE as lines that grow, until --count or Ctrl-C.

    Where the output is no terminal, or with --json: a line for each sample, and one sample without --count. For
    example: penstock queues watch orders
    """

    feed = Feed(url)
    live = sys.stdout.isatty() and not as_json and os.environ.get("TERM") != "dumb"
    if count is None and not sys.stdout.isatty():
        count = 1
    try:
        _watch(feed, queue, interval, count, Lines() if live else None, as_json)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        feed.close()


def _watch(feed: Feed, queue: str, interval: float, count: int | None, lines: Lines | None, as_json: bool) -> None:
    """Show samples; a lost broker is reported and asked again, except before the first sample."""
    from penstock.client.errors import ControlError

    seen = 0
    while True:
        begun = time.monotonic()
        try:
            item = feed.ask("top", {"queue": queue})["items"][0]
        except PenstockError as error:
            if seen == 0 or isinstance(error, ControlError):
                raise
            if lines is not None:
                lines.lost(str(error))
            else:
                say(f"penstock: {error}; asking again", err=True)
        else:
            seen += 1
            if lines is not None:
                lines.add(item)
            elif as_json:
                say_json(_sample(item))
            else:
                say(_line(item))
            if count is not None and seen >= count:
                return
        time.sleep(max(begun + interval - time.monotonic(), 0.0))


def _sample(item: dict[str, Any]) -> dict[str, object]:
    own = item["penstock"]
    came, went = top_view.rates(item)
    return {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "queue": item["name"],
        "depth": own["depth"],
        "unacknowledged": own["unacknowledged"],
        "fill_percent": own["fill_percent"],
        "publish_rate": came,
        "deliver_rate": went,
        "gate_open": own["road"]["open"],
        "held_by": own["road"]["held_by"],
        "blocked": own["road"]["blocked"],
        "consumers": item["consumers"],
    }


def _line(item: dict[str, Any]) -> str:
    own = item["penstock"]
    came, went = top_view.rates(item)
    parts = [
        datetime.now().astimezone().strftime("%H:%M:%S"),
        counted(own["depth"]["messages"], "message"),
        rounded_bytes(own["depth"]["bytes"]),
        f"{shown_percent(own['fill_percent'])} full",
        *([] if came is None else [f"in {came:,.1f}/s"]),
        *([] if went is None else [f"out {went:,.1f}/s"]),
        f"gate {road_text(own['road'])}",
        f"{counted(own['road']['blocked'], 'producer')} blocked",
    ]
    return "  ".join(parts)


class Lines:
    """Lines of `watch` in a terminal: each picture overwrites the one before."""

    def __init__(self) -> None:
        self._items: deque[dict[str, Any] | None] = deque(maxlen=SAMPLES_MAX)
        self._written = 0

    def add(self, item: dict[str, Any]) -> None:
        """Add a sample and write the picture."""
        self._items.append(item)
        self._write(item, None)

    def lost(self, reason: str) -> None:
        """Leave a gap, and report that the broker does not answer."""
        last = next(item for item in reversed(self._items) if item is not None)
        self._items.append(None)
        self._write(last, reason)

    def _write(self, item: dict[str, Any], lost: str | None) -> None:
        width = shutil.get_terminal_size().columns
        found = [_cut(line, width) for line in self._picture(item, lost, max(width - LABEL_CELLS - VALUE_CELLS, 10))]
        found[0] = styled(found[0], "heading")
        if lost is not None:
            found[-1] = styled(found[-1], "alarm")
        up = f"\x1b[{self._written}A" if self._written else ""
        with writing():
            click.echo(up + "\r\x1b[J" + "\n".join(found))
        self._written = len(found)

    def _picture(self, item: dict[str, Any], lost: str | None, cells: int) -> list[str]:
        own = item["penstock"]
        depth, road, capacity = own["depth"], own["road"], own["capacity"]
        items = list(self._items)[-cells:]
        depths = [None if each is None else float(each["penstock"]["depth"]["messages"]) for each in items]
        fills = [None if each is None else each["penstock"]["fill_percent"] for each in items]
        line = top_view.spark(depths) if own["fill_percent"] is None else top_view.spark(fills, top_view.FULL)
        least = top_view.amounts(depths) or (0.0, 0.0)
        state = f"gate {road_text(road)}"
        if not road["open"]:
            state += f" for {shown_age(road['closed_for_s'])}"
        found = [
            printable(
                f"{item['name']}: {counted(depth['messages'], 'message')}, {rounded_bytes(depth['bytes'])} of "
                f"{shown_capacity(capacity)} ({shown_percent(own['fill_percent'])}), {state}, "
                f"{counted(road['blocked'], 'producer')} blocked, {counted(item['consumers'], 'consumer')}"
            ),
            f"{'depth':<{LABEL_CELLS}}{line}  {least[0]:,.0f} to {least[1]:,.0f}",
        ]
        for label, place in (("in/s", 0), ("out/s", 1)):
            values = [None if each is None else top_view.rates(each)[place] for each in items]
            between = top_view.amounts(values)
            if between is not None:
                found.append(f"{label:<{LABEL_CELLS}}{top_view.spark(values)}  {between[0]:,.1f} to {between[1]:,.1f}")
        if lost is not None:
            found.append(printable(f"no answer, asking again: {lost}"))
        return found


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"
