"""Bridges for display: RabbitMQ's words for their states, and their figures in metrics."""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from penstock.describe.exposition import label
from penstock.describe.table import Row, Table, metric

LABELLED_MOST: Final = 1000
"""Most bridges with figures of their own in one answer of metrics; the others are counted."""
SHOVEL: Final = "shovel"
FEDERATION: Final = "federation"
RUNNING: Final = "running"
STARTING: Final = "starting"
TERMINATED: Final = "terminated"
UNUSED: Final = "unused"
"""State of an upstream without links."""
OF_SHOVELS: Final[dict[str, str]] = {STARTING: STARTING, "away": TERMINATED, "paused": TERMINATED}
OF_LINKS: Final[dict[str, str]] = {STARTING: STARTING, "away": "error", "paused": "shutdown"}
"""RabbitMQ's words for states of shovels and of links; others are running."""


def shovel_status(state: str) -> str:
    """Return RabbitMQ's word for the state of a shovel."""
    return OF_SHOVELS.get(state, RUNNING)


def link_status(state: str) -> str:
    """Return RabbitMQ's word for the state of a link."""
    return OF_LINKS.get(state, RUNNING)


class BridgeCount(NamedTuple):
    """Number of bridges of one kind."""

    number: int


def _number(row: Row, name: str) -> float | None:
    value = row.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


BRIDGE: Final[Table[Row]] = Table(
    metric("penstock_bridge_messages_total", lambda row, at: _number(row, "carried"),
           "Messages that the target of a bridge has confirmed, since the bridge was started"),
    metric("penstock_bridge_bytes_total", lambda row, at: _number(row, "bytes"), "Bytes of their bodies"),
    metric("penstock_bridge_refused_total", lambda row, at: _number(row, "refused"),
           "Messages that its target has refused"),
    metric("penstock_bridge_lag_messages", lambda row, at: _number(row, "lag"),
           "Messages that wait in its source, where the bridge knows"),
    metric("penstock_bridge_last_message_seconds", lambda row, at: _number(row, "last"),
           "Time of its last confirmed message, in seconds since 1970"),
    metric("penstock_bridge_state_since_seconds", lambda row, at: _number(row, "since"),
           "Time at which its state began, in seconds since 1970"),
)  # fmt: skip
"""Figures of one bridge."""
STATES: Final[Table[BridgeCount]] = Table(
    metric("penstock_bridges", lambda count, at: count.number, "Bridges in a state"),
)
SHOVELS: Final[Table[BridgeCount]] = Table(
    metric("rabbitmq_shovel_dynamic", lambda count, at: count.number, "Current number of dynamic shovels"),
)
LINKS: Final[Table[BridgeCount]] = Table(
    metric("rabbitmq_federation_links", lambda count, at: count.number, "Current number of federation links"),
)


def labelled_bridges(rows: list[Row]) -> list[tuple[str, Row]]:
    """Return the first bridges with their labels."""
    return [(_labels(row), row) for row in rows[:LABELLED_MOST]]


def labelled_states(rows: list[Row]) -> list[tuple[str, BridgeCount]]:
    """Return the number of bridges by component and state."""
    found = Counter((str(row["component"]), str(row["state"])) for row in rows)
    return [
        (f"{label('component', component)},{label('state', state)}", BridgeCount(found[component, state]))
        for component, state in sorted(found)
    ]


def labelled_shovels(rows: list[Row]) -> list[tuple[str, BridgeCount]]:
    """Return the number of shovels by RabbitMQ's word for their state."""
    return _by_status([shovel_status(str(row["state"])) for row in rows if row["component"] == SHOVEL])


def labelled_links(rows: list[Row]) -> list[tuple[str, BridgeCount]]:
    """Return the number of links by RabbitMQ's word for their state."""
    links = [row for row in rows if row["component"] == FEDERATION and row["state"] != UNUSED]
    return _by_status([link_status(str(row["state"])) for row in links])


def _by_status(statuses: list[str]) -> list[tuple[str, BridgeCount]]:
    found = Counter(statuses)
    return [(label("status", status), BridgeCount(found[status])) for status in sorted(found)]


def _labels(row: Row) -> str:
    """Return the labels of a bridge; a link of federation has its queue or exchange besides its upstream."""
    link = row.get("link")
    resource = str(link.get("resource", "")) if isinstance(link, dict) else ""
    names = (("vhost", "vhost"), ("bridge", "name"), ("component", "component"))
    own = ",".join([label(name, str(row[field])) for name, field in names])
    return f"{own},{label('resource', resource)}" if resource else own
