"""Texts of `penstock top` and `penstock queues watch` from the broker's answers, for a screen or for one print."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from penstock.cli.cells import cut, width
from penstock.texts import counted, printable, road_text, rounded_bytes, shown_age

Item = dict[str, Any]
Row = tuple[str, ...]

HEADS: Final = (
    *("queue", "fill", "gate", "blocked", "messages", "in/s", "out/s", "closed for", "consumers", "oldest"),
    *("unacked", "bytes"),
)
"""Columns, the most urgent first; a narrow terminal has the first ones."""
FIRST: Final = 4
"""Columns before the sparkline of the depth."""
ORDERS: Final = ("blocked", "fill", "messages", "bytes", "rate")
HISTORY_HEADS: Final = ("depth", "closed")
"""Columns of sparklines, with their minutes after the name: the fill, and the part of time that the gate is closed."""
SAMPLES_A_MINUTE: Final = 12
MINUTES_MOST: Final = 5
"""Samples of the broker's history, and the minutes of its finest part."""
BETWEEN: Final = 2
"""Cells between two columns."""
BAR_CELLS: Final = 10
"""Width of a fill bar."""
BAR_COLUMNS: Final = 110
"""Least width of a terminal that has bars beside sparklines."""
ALL_COLUMNS: Final = 130
"""Columns of a terminal from which on a sparkline may be longer than a minute: short names leave room for all."""
SHARES: Final = (0.31, 0.26)
SHARES_LEAST: Final = (12, 8)
SHARES_MOST: Final = (36, 40)
"""Parts of a terminal's width for names and gates, with the least and the most cells."""
EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
SPARKS: Final = "▁▂▃▄▅▆▇█"
FULL: Final = 100.0
"""Percent of a full line."""
GATES_SHOWN: Final = 4
"""Most closed gates above the queues; further gates are counted."""


def bar(percent: float | None, cells: int = BAR_CELLS) -> str:
    """Return a bar of this width; "" for a queue without a capacity."""
    if percent is None:
        return ""
    eighths = round(min(max(percent, 0.0), 100.0) / 100 * cells * 8)
    if eighths == 0 and percent > 0:
        eighths = 1
    full, rest = divmod(eighths, 8)
    return ("█" * full + (EIGHTHS[rest] if rest else "")).ljust(cells)


def spark(values: Sequence[float | None], most: float | None = None) -> str:
    """Return a line with a character for each value, from 0 to `most` (None: the largest); a space for a missing value.

    Without `most`, constant values are drawn low, because their scale is unknown.
    """
    known = [value for value in values if value is not None]
    top = max(known, default=0.0) if most is None else most
    if top <= 0 or (most is None and len(known) > 1 and min(known) == top):
        return "".join(" " if value is None else SPARKS[0] for value in values)
    last = len(SPARKS) - 1
    return "".join(" " if value is None else SPARKS[min(round(value / top * last), last)] for value in values)


def rate(item: Item, *names: str) -> float | None:
    """Return the first of these rates that the broker reports, in messages a second; None without any."""
    stats = item.get("message_stats") or {}
    for name in names:
        found = (stats.get(f"{name}_details") or {}).get("rate")
        if found is not None:
            return float(found)
    return None


def rates(item: Item) -> tuple[float | None, float | None]:
    """Return the rates of publishes into, and of deliveries out of, a queue."""
    own = item["penstock"].get("rates")
    if own is not None:
        return float(own["publish"]), float(own["deliver_get"])
    return rate(item, "publish"), rate(item, "deliver_get", "deliver")


def cells_of(item: Item, everywhere: bool, bar_cells: int = BAR_CELLS) -> Row:
    """Return the cells of a queue, in the order of HEADS; names of other virtual hosts are before a colon."""
    own = item["penstock"]
    road, depth, fill = own["road"], own["depth"], own["fill_percent"]
    came, went = rates(item)
    name = f"{item['vhost']}: {item['name']}" if everywhere else item["name"]
    return (
        printable(name),
        "" if fill is None else f"{bar(fill, bar_cells) + ' ' if bar_cells else ''}{fill:3.0f} %",
        road_text(road),
        f"{road['blocked']:,}",
        f"{depth['messages']:,}",
        "-" if came is None else f"{came:,.1f}",
        "-" if went is None else f"{went:,.1f}",
        shown_age(road["closed_for_s"]),
        f"{item['consumers']:,}",
        shown_age(own.get("oldest_s")),
        f"{item['messages_unacknowledged']:,}",
        rounded_bytes(depth["bytes"]),
    )


class Picture(NamedTuple):
    """Queues as a table of a given width."""

    heads: Row
    rows: list[Row]
    left_out: Row = ()
    """Columns for which the terminal has no room."""


def samples_wanted(columns: int) -> int:
    """Return the number of samples to request per queue: no more than a line of so many columns can show."""
    if columns == 0:
        return 0
    return min(1 + max(columns - ALL_COLUMNS, 0) // (2 * SAMPLES_A_MINUTE), MINUTES_MOST) * SAMPLES_A_MINUTE


def picture_of(items: Sequence[Item], everywhere: bool, columns: int) -> Picture:
    """Return the heads and the rows of queues: for a width, as many columns as fit, with sparklines; for none, all
    columns with whole names, and no sparkline.
    """
    if columns == 0:
        return Picture(HEADS, [cells_of(item, everywhere) for item in items])
    knows = any("history" in item for item in items)
    bar_cells = BAR_CELLS if columns >= BAR_COLUMNS or not knows else 0
    name_cells, gate_cells = (
        min(max(int(columns * share), least), most)
        for share, least, most in zip(SHARES, SHARES_LEAST, SHARES_MOST, strict=True)
    )
    rows = [cells_of(item, everywhere, bar_cells) for item in items]
    rows = [(cut(row[0], name_cells), row[1], cut(row[2], gate_cells), *row[3:]) for row in rows]
    widths = [max(map(width, column)) + BETWEEN for column in zip(HEADS, *rows, strict=True)]
    shown, depths, closed = _room(widths, columns, knows)
    heads = HEADS[:shown]
    rows = [row[:shown] for row in rows]
    if depths:
        lines = [history_cells(item, depths) for item in items]
        heads = (*heads[:FIRST], f"{HISTORY_HEADS[0]} {depths} min", *heads[FIRST:])
        rows = [(*row[:FIRST], line[0], *row[FIRST:]) for row, line in zip(rows, lines, strict=True)]
    if closed:
        heads = (*heads, f"{HISTORY_HEADS[1]} {closed} min")
        rows = [(*row, history_cells(item, closed)[1]) for row, item in zip(rows, items, strict=True)]
    return Picture(heads, rows, HEADS[shown:])


def _room(widths: Sequence[int], columns: int, knows: bool) -> tuple[int, int, int]:
    """Return how many columns fit, and the minutes of both sparklines; the depth comes before the columns after it.

    The lines grow minute by minute after all columns have room, that of the depth first.
    """
    minute = SAMPLES_A_MINUTE + BETWEEN
    left, shown, depths, closed = columns - widths[0], 1, 0, 0
    while shown < len(widths):
        if shown == FIRST and knows and depths == 0 and left >= minute:
            left, depths = left - minute, 1
        if left < widths[shown]:
            return shown, depths, closed
        left, shown = left - widths[shown], shown + 1
    if depths and left >= minute:
        left, closed = left - minute, 1
    while closed and left >= 2 * SAMPLES_A_MINUTE and closed < MINUTES_MOST:
        left, depths, closed = left - 2 * SAMPLES_A_MINUTE, depths + 1, closed + 1
    return shown, depths, closed


def history_cells(item: Item, minutes: int) -> Row:
    """Return the sparklines of a queue, the newest sample last.

    Depths are drawn in percent of the capacity, so that a full line is a full queue; without a capacity against the
    highest depth that is shown.
    """
    cells = minutes * SAMPLES_A_MINUTE
    history = item.get("history") or {"messages": [], "closed": []}
    fills = history.get("fill")
    depth = spark(history["messages"][-cells:]) if fills is None else spark(fills[-cells:], FULL)
    return depth.rjust(cells), spark(history["closed"][-cells:], 1.0).rjust(cells)


def headline(top: Item, everywhere: bool = False, columns: int = 0) -> str:
    """Return the broker in one line, which a terminal of so many columns has room for; 0 for the whole line."""
    sums = top["sums"]
    both = sums.get("rates")
    parts = [
        f"{counted(sums['queues'], 'queue')} ({sums['gates_closed']:,} closed)",
        counted(sums["messages"], "message"),
        *([] if both is None else [f"in {both['publish']:,.1f}/s, out {both['deliver_get']:,.1f}/s"]),
        counted(top["connections"], "connection"),
        f"{sums['messages_unacknowledged']:,} unacknowledged",
        rounded_bytes(sums["bytes"]),
        f"longest turn {top['turns']['recent']['ms']:.1f} ms",
        f"penstock {top['version']}",
    ]
    where = "all virtual hosts" if everywhere else f"vhost {printable(top['vhost'])}"
    line = f"{where}: {parts[0]}"
    for part in parts[1:]:
        if columns and width(line) + len(part) + BETWEEN > columns:
            break
        line += f", {part}"
    return cut(line, columns) if columns else line


def blocked_lines(why: Item, columns: int = 0, most: int = GATES_SHOWN) -> list[str]:
    """Return the gates that block producers, longest first, each with advice; empty if none is blocked.

    In a terminal the line of the first gate is wrapped, and others are cut to its columns.
    """
    gates = why.get("gates") or []
    found: list[str] = []
    for gate in gates[:most]:
        hint = f"; {gate['advice']}" if gate.get("advice") else ""
        name = f"{gate['kind']} {gate['name']}" if gate["name"] else gate["kind"]
        line = printable(
            f"{shown_age(gate['blocked_for_s'])}  {name} blocks {counted(gate['blocked'], 'producer')}{hint}"
        )
        found.append(cut(line, columns) if columns and found else line)
    more = len(gates) - len(found) + (why.get("more_gates") or 0)
    if more:
        found.append(f"and {counted(more, 'more gate')}; `penstock why` has all")
    return found


def amounts(values: Iterable[float | None]) -> tuple[float, float] | None:
    """Return the least and the largest of the known values; None without any."""
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if known else None
