"""Types of keywords are those of the tables, and a type checker finds a misspelt one."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

import penstock
import penstock.sync
from penstock.client import option_types
from penstock.client.handles import Linked
from penstock.client.options import CONNECTION, OPTIONS, PUBLISHER, RECEIVER, Options, option_of, queue_arguments
from penstock.core.queue.types import read_features
from penstock.errors import PreconditionFailed
from penstock.settings.read import FEATURES, read_arguments
from penstock.settings.table import OURS
from scripts.option_types import FILE, text

ROOT = Path(__file__).resolve().parents[2]
OF_A_LOGIN = {"user", "password", "virtual_host", "product", "query", "tls", "token"}
PROGRAM = """\
import penstock
import penstock.sync

with penstock.sync.connect("amqp://", window=5, heartbeat="30s", protocol="amqp10", token=None) as connection:
    publisher = connection.publisher("q", window=5, send_timeout=2.5, name="shop")
    connection.publisher("q", windw=5)
    connection.receiver("q", prefetch=5, mode="browse")
    connection.receiver("q", mode="brwse")
    connection.declare_queue("q", durable=False, capacity_messages=5, x_queue_type="quorum", hold_deadline="2s")
    connection.declare_queue("q", capcity_messages=5)
    publisher.send(b"x", timeout=1)
penstock.sync.connect("amqp://", heartbeet=5)


async def program() -> None:
    async with penstock.connect("amqp://", prefetch=5) as connection:
        await connection.declare_queue("q", max_length=5)
        connection.publisher("q", windw=5)
    penstock.connect("amqp://", window=[5])
"""
"""Program with a fault in each of six lines."""


def names_of(types: type) -> set[str]:
    return set(get_type_hints(types))


def test_types_equal_the_types_of_the_tables() -> None:
    assert FILE.read_text() == text(), "`make pages` writes it"


@pytest.mark.parametrize(
    ("types", "scopes"),
    [
        (option_types.PublisherOptions, (PUBLISHER,)),
        (option_types.ReceiverOptions, (RECEIVER,)),
        (option_types.ConnectionOptions, (CONNECTION, PUBLISHER, RECEIVER)),
    ],
)
def test_typed_keyword_is_an_option(types: type, scopes: tuple[str, ...]) -> None:
    beside = OF_A_LOGIN if CONNECTION in scopes else {"name"}
    found = {option_of(name, scopes)[0].name for name in names_of(types) - beside}
    assert found == {option.name for option in OPTIONS if option.scope in scopes}


def test_typed_keyword_of_a_login_is_read() -> None:
    options = Options("amqp://", {"user": "ann", "virtual_host": "shop", "token": "t"})
    assert names_of(option_types.ConnectionOptions) >= OF_A_LOGIN
    assert (options.user, options.virtual_host, options.token) == ("ann", "shop", "t")


@pytest.mark.parametrize("name", sorted(names_of(option_types.QueueSettings)))
def test_typed_setting_of_a_queue_is_known_to_the_broker(name: str) -> None:
    given = queue_arguments({name: [1]})
    read = read_features if name.replace("_", "-") in FEATURES else read_arguments
    with pytest.raises(PreconditionFailed):  # An unknown name would be accepted with any value.
        read("q", given)


def test_queue_settings_are_all_typed() -> None:
    assert {name.replace("-", "_") for name in OURS} <= names_of(option_types.QueueSettings)


def test_signature_at_run_time_takes_any_keyword() -> None:
    for call in (penstock.connect, penstock.sync.connect, Linked.publisher, Linked.receiver):
        assert [p.kind for p in inspect.signature(call).parameters.values()][-1] is inspect.Parameter.VAR_KEYWORD
    with pytest.raises(ValueError, match="a connection has no option 'windw'; did you mean window"):
        penstock.sync.connect("amqp://", windw=5)  # type: ignore[call-arg]


@pytest.mark.long
def test_misspelt_keyword_is_found_by_a_type_checker(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    words = [sys.executable, "-m", "mypy", "--no-error-summary", "--cache-dir", str(ROOT / ".mypy_cache"), str(program)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    errors = [line.split(": ", 2) for line in done.stdout.splitlines() if ": error: " in line]
    lines = PROGRAM.splitlines()
    faults = {lines[int(place.rpartition(":")[2]) - 1].strip(): what for place, _, what in errors}
    assert faults.keys() == {
        'connection.publisher("q", windw=5)',
        'connection.receiver("q", mode="brwse")',
        'connection.declare_queue("q", capcity_messages=5)',
        'penstock.sync.connect("amqp://", heartbeet=5)',
        'penstock.connect("amqp://", window=[5])',
    }, done.stdout + done.stderr
    assert len(errors) == 6, "one of them with asyncio and with blocking calls"
    assert "did you mean" in faults['connection.publisher("q", windw=5)']
