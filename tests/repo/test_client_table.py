"""The tables of clients in docs/clients.md and docs/inside/clients.md say what the table in the code does."""

import inspect
from pathlib import Path

import amqp
import pika
import pytest
from amqpstorm.connection import DEFAULT_HEARTBEAT_TIMEOUT, Connection

from penstock.connections.client_profiles import AMQP_0_9_1, PROFILES, Profile
from penstock.settings.table import HOLD_DEADLINE_S

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "clients.md"
MEASURED = DOCUMENT.with_name("inside") / "clients.md"
YES = {"yes": True, "no": False}


def rows(first_column: str, second_column: str, document: Path = DOCUMENT) -> list[dict[str, str]]:
    """Return the table that begins with these columns."""
    lines = document.read_text().splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith(f"| {first_column} | {second_column} |"))
    names = cells(lines[start])
    found = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        found.append(dict(zip(names, cells(line), strict=True)))
    return found


def cells(line: str) -> list[str]:
    return [cell.strip().replace("`", "") for cell in line.strip("|").split("|")]


def writing(row: Profile) -> str:
    if row.fails_when_blocked:
        return "publishes throw"
    return "yes" if row.stops_writing else "no"


def test_client_profiles_are_documented() -> None:
    documented = {
        row["product"]: (
            "" if row["platform"] == "any" else row["platform"],
            YES[row["stops for channel.flow"]],
            YES[row["small receive buffer"]],
            not YES[row["a refused message comes back"]],
            row["stops writing"],
        )
        for row in rows("client", "product", MEASURED)
    }
    assert documented == {
        row.product: (row.platform, row.obeys_flow, row.small_receive_buffer, row.return_is_success, writing(row))
        for row in PROFILES.values()
        if row.protocol == AMQP_0_9_1
    }


def test_long_hold_has_a_row_for_every_client() -> None:
    held = rows("client", "version", MEASURED)
    versions = " ".join(row["client"] for row in rows("client", "product", MEASURED))
    assert [row for row in held if f"{row['client']} {row['version']}" not in versions] == []
    assert len({row["client"] for row in held}) == 13


def default(function: object, name: str) -> object:
    return inspect.signature(function).parameters[name].default  # type: ignore[arg-type]


TIMES = {
    "pika": (pika.ConnectionParameters().heartbeat, pika.ConnectionParameters().blocked_connection_timeout, None),
    "aio-pika": (60, None, None),
    "py-amqp": (default(amqp.Connection, "heartbeat") or None, None, None),
    "amqpstorm": (
        DEFAULT_HEARTBEAT_TIMEOUT,
        default(Connection.channel, "rpc_timeout"),
        default(Connection.channel, "rpc_timeout"),
    ),
}
"""Seconds between heartbeats, and for which a confirm or another answer is waited for; None for ours, or for ever."""


@pytest.mark.parametrize("library", TIMES)
def test_timeouts_of_installed_libraries_are_documented(library: str) -> None:
    (row,) = (row for row in rows("default", "heartbeat") if row["default"].startswith(library))
    heartbeat, confirm, answer = TIMES[library]
    assert row["heartbeat"] == (f"{heartbeat} s" if heartbeat else row["heartbeat"])
    assert row["heartbeat"] in (f"{heartbeat} s", "ours", "none")
    for seconds, cell in ((confirm, row["waits for a confirm"]), (answer, row["waits for other answers"])):
        assert cell.startswith("for ever" if seconds is None else f"{seconds} s")


def test_default_hold_deadline_is_shorter_than_documented_waits_for_confirms() -> None:
    waits = {row["default"]: row["waits for a confirm"] for row in rows("default", "heartbeat")}
    assert waits.pop("**Penstock**").startswith(f"{HOLD_DEADLINE_S:g} s")
    short = [name for name, wait in waits.items() if wait[0].isdigit() and float(wait.split()[0]) <= HOLD_DEADLINE_S]
    assert short == ["EasyNetQ"], "its row says what to set"
