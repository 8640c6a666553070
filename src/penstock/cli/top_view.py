"""Texts of `penstock top` and `penstock queues watch` from the broker's answers, for a screen or for one print."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from penstock.texts import counted, printable, road_text, rounded_bytes, shown_age

Item = dict[str, Any]
Row = tuple[str, ...]

HEADS: Final = (
    *(
        "queue",
        "fill",
        "gate",
        "blocked",
        "closed for",
        "messages",
        "oldest",
        "unacked",
        "bytes",
        "in/s",
        "out/s",
        "consumers",
    ),
)
ORDERS: Final = ("blocked", "fill", "messages", "bytes", "rate")
HISTORY_HEADS: Final = ("depth", "closed")
"""Columns of sparklines, with their minutes after the name: messages, and the share of time that the gate is closed."""
SAMPLES_A_MINUTE: Final = 12
MINUTES_MOST: Final = 5
"""Samples of the broker's history, and the minutes of its finest part."""
BETWEEN: Final = 2
"""Cells between two columns."""
BAR_CELLS: Final = 10
"""Width of a fill bar."""
EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
SPARKS: Final = "▁▂▃▄▅▆▇█"
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


def cells_of(item: Item, everywhere: bool) -> Row:
    """Return the cells of a queue, in the order of HEADS; names of other virtual hosts are before a colon."""
    own = item["penstock"]
    road, depth, fill = own["road"], own["depth"], own["fill_percent"]
    came, went = rates(item)
    name = f"{item['vhost']}: {item['name']}" if everywhere else item["name"]
    return (
        printable(name),
        "" if fill is None else f"{bar(fill)} {fill:.0f} %",
        road_text(road),
        f"{road['blocked']:,}",
        shown_age(road["closed_for_s"]),
        f"{depth['messages']:,}",
        shown_age(own.get("oldest_s")),
        f"{item['messages_unacknowledged']:,}",
        rounded_bytes(depth["bytes"]),
        "-" if came is None else f"{came:,.1f}",
        "-" if went is None else f"{went:,.1f}",
        f"{item['consumers']:,}",
    )


def samples_wanted(width: int) -> int:
    """Return the number of samples to request per queue: no more than a line of this width can show."""
    free = width - sum(len(head) + BETWEEN for head in HEADS) - BETWEEN
    return min(max(free // SAMPLES_A_MINUTE, 0), MINUTES_MOST) * SAMPLES_A_MINUTE


def rows_of(
    items: Sequence[Item], everywhere: bool, width: int, name_cells: int | None = None
) -> tuple[Row, list[Row]]:
    """Return the heads and the rows of queues; with sparklines if they fit into the width.

    The caller cuts names longer than `name_cells`.
    """
    rows = [cells_of(item, everywhere) for item in items]
    widths = [max(map(len, column)) for column in zip(HEADS, *rows, strict=True)]
    widths[0] = min(widths[0], name_cells or widths[0])
    columns, minutes = _room(width - sum(widths) - BETWEEN * len(widths))
    if columns == 0 or not any("history" in item for item in items):
        return HEADS, rows
    heads = [f"{head} {minutes} min" for head in HISTORY_HEADS[:columns]]
    lines = [history_cells(item, minutes)[:columns] for item in items]
    return (*HEADS, *heads), [(*row, *more) for row, more in zip(rows, lines, strict=True)]


def _room(free: int) -> tuple[int, int]:
    """Return how many sparklines fit into free cells, and of how many minutes."""
    for columns in range(len(HISTORY_HEADS), 0, -1):
        minutes = min((free // columns - BETWEEN) // SAMPLES_A_MINUTE, MINUTES_MOST)
        if minutes > 0:
            return columns, minutes
    return 0, 0


def history_cells(item: Item, minutes: int) -> Row:
    """Return the sparklines of a queue, the newest sample last; depths are against its capacity in messages, if any."""
    cells = minutes * SAMPLES_A_MINUTE
    history = item.get("history") or {"messages": [], "closed": []}
    depth = spark(history["messages"][-cells:], item["penstock"]["capacity"]["messages"])
    return depth.rjust(cells), spark(history["closed"][-cells:], 1.0).rjust(cells)


def headline(top: Item) -> str:
    """Return the broker in one line."""
    sums = top["sums"]
    turn = top["turns"]["recent"]["ms"]
    both = sums.get("rates")
    flow = "" if both is None else f", in {both['publish']:,.1f}/s, out {both['deliver_get']:,.1f}/s"
    return (
        f"penstock {top['version']}, vhost {printable(top['vhost'])}: {counted(top['connections'], 'connection')}, "
        f"{counted(sums['queues'], 'queue')} ({sums['gates_closed']:,} closed), "
        f"{counted(sums['messages'], 'message')} ({sums['messages_unacknowledged']:,} unacknowledged), "
        f"{rounded_bytes(sums['bytes'])}{flow}; longest turn {turn:.1f} ms"
    )


def blocked_lines(why: Item, most: int = GATES_SHOWN) -> list[str]:
    """Return the gates that block producers, longest first, each with advice; empty if none is blocked."""
    gates = why.get("gates") or []
    found = []
    for gate in gates[:most]:
        hint = f"; {gate['advice']}" if gate.get("advice") else ""
        name = f"{gate['kind']} {gate['name']}" if gate["name"] else gate["kind"]
        found.append(
            printable(f"{shown_age(gate['blocked_for_s'])}  {name} blocks {counted(gate['blocked'], 'producer')}{hint}")
        )
    more = len(gates) - len(found) + (why.get("more_gates") or 0)
    if more:
        found.append(f"and {counted(more, 'more gate')}; `penstock why` has all")
    return found


def amounts(values: Iterable[float | None]) -> tuple[float, float] | None:
    """Return the least and the largest of the known values; None without any."""
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if known else None
