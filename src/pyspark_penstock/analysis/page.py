"""The page of an analysis: one HTML file with all its plots, which loads no other file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any

from penstock.logs import flowlog
from pyspark_penstock.analysis import svg
from pyspark_penstock.analysis.job import LINES, POINTS, Analysis, Row
from pyspark_penstock.analysis.logs import moment
from pyspark_penstock.analysis.measures import PERCENTILES

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #222; max-width: 960px; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.6em } h2 { font-size: 1.2em; margin-top: 2em }
table { border-collapse: collapse; width: 100%; font-size: 13px } th, td { text-align: left; padding: 3px 8px }
th { border-bottom: 2px solid #222 } td { border-bottom: 1px solid #ddd } td.n, th.n { text-align: right }
svg { width: 100%; height: auto; font: 12px system-ui, sans-serif } .notice { background: #fff4d6; padding: .5em 1em }
.none { color: #555 }
"""
Column = tuple[str, Callable[[Row], str], bool]
"""Heading, text of a row, and whether the column is a number."""


def page(found: Analysis) -> str:
    """Return the page as HTML."""
    about = f"queue '{found.queue}'" if found.queue else "all queues"
    parts = [
        "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'>",
        f"<title>Flow log: {escape(about)}</title><style>{STYLE}</style></head><body>",
        f"<h1>Flow log of {escape(about)}</h1>",
        f"<p>{found.records:,} records of {escape(', '.join(found.logs))}. {escape(moment(found.begin))} to "
        f"{escape(moment(found.end))}: {found.seconds:,.1f} s recorded in {found.runs:,} "
        f"run{'' if found.runs == 1 else 's'}.</p>",
        *[f"<p class='notice'>{escape(notice)}</p>" for notice in found.notices],
    ]
    for section in (_blocked, _chains, _gates, _latencies, _rates, _depths, _queues, _sizes):
        parts.append(section(found))
    parts.append("</body></html>\n")
    return "\n".join(parts)


def _blocked(found: Analysis) -> str:
    heading = "<h2>Blocked time</h2>"
    if not found.producers:
        return f"{heading}<p class='none'>No producer was blocked.</p>"
    words = (
        f"<p>All producers together were blocked for {found.blocked_seconds:,.1f} s. A producer that several gates "
        "block counts at each. Each share is of the recorded time, as at <a href='#gates'>the gates</a>.</p>"
    )
    bars = [
        (row["producer"], row["seconds"], f"{row['seconds']:,.1f} s, {row['share']:.1%} of the time")
        for row in found.producers
    ]
    users = [(row["user"], row["seconds"], _seconds_and_average(row, row["seconds"])) for row in found.users]
    by_gate = sorted(found.gates, key=lambda row: -row["blocked_seconds"])
    gates = [
        (f"{row['kind']} {row['gate']}", row["blocked_seconds"], _seconds_and_average(row, row["blocked_seconds"]))
        for row in by_gate
    ]
    return (
        heading + words + "<h3>By producer</h3>" + svg.bars("Blocked time by producer", bars)
        + "<h3>By user</h3>" + svg.bars("Blocked time by user", users)
        + "<h3>By gate</h3>" + svg.bars("Blocked time by gate", gates)
        + _over_time(found, "Blocked producers", "producers (average)", "blocked")
    )  # fmt: skip


def _seconds_and_average(row: Row, seconds: float) -> str:
    return f"{seconds:,.1f} s, {row['share']:,.2f} blocked on average"


def _chains(found: Analysis) -> str:
    heading = "<h2>From the blocked producers to the slow consumer</h2>"
    if not found.chains:
        return f"{heading}<p class='none'>No queue blocked a producer.</p>"
    rows = []
    for chain in found.chains:
        row = [("producers", f"blocked {chain.blocked_seconds:,.1f} s")]
        for index, queue in enumerate(chain.queues):
            row.append((queue["queue"], f"closed {queue['closed_seconds']:,.1f} s"))
            if index < len(chain.via):
                row.append((chain.via[index], "takes and publishes"))
        rate = chain.settled_per_second
        row.append((chain.takers(), "consumes" if rate is None else f"settles {rate:,.1f} messages/s"))
        rows.append(row)
    words = "".join(f"<li>{escape(chain.sentence())}.</li>" for chain in found.chains)
    return heading + svg.boxes("Chains of queues", rows) + f"<ul>{words}</ul>"


def _gates(found: Analysis) -> str:
    heading = "<h2 id='gates'>Gates</h2>"
    if not found.gates:
        return f"{heading}<p class='none'>No gate closed.</p>"
    bars = [(f"{row['kind']} {row['gate']}", row["duty"], f"{row['duty']:.1%}") for row in found.gates]
    columns: list[Column] = [
        ("gate", lambda row: f"{row['kind']} {row['gate']}", False),
        ("log", _log, False),
        ("closed", lambda row: f"{row['seconds']:,.1f} s", True),
        ("of the time", lambda row: f"{row['duty']:.2%}", True),
        ("crossings", lambda row: f"{row['crossings']:,}", True),
        ("highest", lambda row: _depth(row, "highest"), True),
        ("blocked", lambda row: f"{row['blocked_share']:.2%}", True),
        ("", lambda row: "bound" if row["bound"] else "", False),
    ]
    words = ""
    if any(row["bound"] for row in found.gates):
        words = (
            f"<p>Bound: the gate blocked producers for more than {flowlog.BOUND:.0%} of the recorded time. So the log "
            "has a lower bound of the offered load. With other settings, crossings, closed time and held time are "
            "bounds.</p>"
        )
    bars_of_gates = svg.bars("Part of the time that each gate was closed", bars)
    return heading + bars_of_gates + words + _table(found.gates, columns)


def _latencies(found: Analysis) -> str:
    heading = "<h2>Resume latency</h2>"
    words = (
        "<p>From the opening of a gate until a producer that it blocked may go on. Producers go on one after another, "
        "each with its share of the bytes. So a producer may be blocked while the gate is open: its turn has not come. "
        "That is why producers are blocked for longer than their gate is closed.</p>"
    )
    if not found.latencies:
        return f"{heading}<p class='none'>No producer was released by the opening of a gate.</p>"
    bars = [
        (f"{row['kind']} {row['gate']}", row["percentiles"][2] * 1e3, f"p99 {row['percentiles'][2] * 1e3:,.2f} ms")
        for row in found.latencies
    ]
    columns: list[Column] = [("gate", lambda row: f"{row['kind']} {row['gate']}", False)]
    for index, percentile in enumerate(PERCENTILES):
        name = "highest" if percentile == 1.0 else f"p{percentile * 100:g}"
        columns.append((name, lambda row, index=index: f"{row['percentiles'][index] * 1e3:,.2f} ms", True))  # type: ignore[misc]
    columns.append(("releases", lambda row: f"{row['resumes']:,}", True))
    return heading + words + svg.bars("Resume latency by gate, p99", bars) + _table(found.latencies, columns)


def _rates(found: Analysis) -> str:
    if not any(row["in_messages"] for row in found.series):
        return "<h2>Rates</h2><p class='none'>The log has no arrivals in that time.</p>"
    width = max((found.end - found.begin) / POINTS, 1e-6)
    named = []
    for name, column in (("in", "in_messages"), ("settled", "settled_messages")):
        sums: dict[int, float] = {}
        for row in found.series:
            sums[row["point"]] = sums.get(row["point"], 0.0) + (row[column] or 0)
        named.append((name, [(found.begin + point * width, value / width) for point, value in sorted(sums.items())]))
    plot = svg.lines("Messages in and settled", "messages/s", found.begin, found.end, named, _clock(found))
    return "<h2>Rates of all queues</h2>" + plot


def _depths(found: Analysis) -> str:
    text = (
        f"<h2>Depth</h2><p>Of the {LINES} queues that were closed for the longest time, highest in each interval.</p>"
    )
    plot = _over_time(found, "Depth in messages", "messages", "messages")
    return text + (plot or "<p class='none'>The log has no samples of depths in that time.</p>")


def _over_time(found: Analysis, title: str, unit: str, column: str) -> str:
    """Draw a column of the named queues over time; empty if there are none."""
    width = max((found.end - found.begin) / POINTS, 1e-6)
    named = []
    for name in found.named:
        rows = [row for row in found.series if (row["log"], row["vhost"], row["queue"]) == name]
        points = [(found.begin + row["point"] * width, float(row[column] or 0)) for row in rows]
        if points:
            named.append((name[2], points))
    if not named:
        return ""
    return f"<h3>{title}</h3>" + svg.lines(title, unit, found.begin, found.end, named, _clock(found))


def _queues(found: Analysis) -> str:
    heading = "<h2>Queues</h2>"
    if not found.queues:
        return f"{heading}<p class='none'>The log has no samples of queues in that time.</p>"
    words = (
        "<p>Starved is the time for which a queue had consumers and no ready message although its gate blocked "
        "producers. It is an estimate from one sample a second.</p>"
    )
    columns: list[Column] = [
        ("queue", lambda row: row["queue"], False),
        ("log", _log, False),
        ("in", lambda row: _number(row["in_messages"]), True),
        ("out", lambda row: _number(row["out_messages"]), True),
        ("settled", lambda row: _number(row["settled_messages"]), True),
        ("refused", lambda row: _number(row["refused_messages"]), True),
        ("highest", lambda row: _depth(row, "highest"), True),
        ("capacity", lambda row: _depth(row, "capacity"), True),
        ("starved", lambda row: f"{row['starved_seconds'] or 0:,.1f} s", True),
    ]
    return heading + words + _table(found.queues, columns)


def _sizes(found: Analysis) -> str:
    heading = "<h2>Sizes of messages</h2>"
    whole = sum(found.sizes)
    if not whole:
        return f"{heading}<p class='none'>The log has no sizes in that time.</p>"
    bars = [
        (f"below {svg.amount(2.0**index)} bytes", float(count), f"{count / whole:.1%}")
        for index, count in enumerate(found.sizes)
        if count
    ]
    return heading + svg.bars("Sizes of messages", bars)


def _clock(found: Analysis) -> Callable[[float], str]:
    form = "%m-%d %H:%M" if found.end - found.begin > 36 * 3600 else "%H:%M:%S"
    return lambda seconds: datetime.fromtimestamp(seconds, UTC).strftime(form)


def _log(row: Row) -> str:
    return str(row["log"])


def _number(value: Any) -> str:
    return "-" if value is None else f"{value:,}"


def _depth(row: Row, name: str) -> str:
    messages, size = row.get(f"{name}_messages"), row.get(f"{name}_bytes")
    parts = [f"{messages:,}"] if messages is not None else []
    if size is not None:
        parts.append(f"{svg.amount(size)}B" if size >= 1000 else f"{size} B")
    return ", ".join(parts) or "-"


def _table(rows: Sequence[Row], columns: Sequence[Column]) -> str:
    head = "".join(f"<th{' class=n' if number else ''}>{escape(name)}</th>" for name, _, number in columns)
    body = "".join(
        "<tr>"
        + "".join(f"<td{' class=n' if number else ''}>{escape(text(row))}</td>" for _, text, number in columns)
        + "</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"
