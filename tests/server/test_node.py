"""Node of a server: its ports, what a start that fails leaves open, and the start-up settings that a reload changes."""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import penstock
from penstock.errors import StartError
from penstock.server.node import NO_ADDRESS, ServerNode, whole_machine
from penstock.server.shard import Shard
from penstock.settings.config import Settings, load
from penstock.store.directory import DataDirectory


@pytest.fixture
def taken() -> Iterator[str]:
    """An address that another program listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        host, port = listening.getsockname()
        yield f"{host}:{port}"


def free_port() -> int:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as found:
        return int(found.getsockname()[1])


def node_of(settings: Settings, listen: list[tuple[str, int]]) -> ServerNode:
    return ServerNode(settings, listen, None, Shard("penstock@here", settings, None, whole_machine()))


@pytest.mark.parametrize("port", ["listen", "http", "metrics_listen"])
async def test_start_that_finds_a_port_in_use_releases_everything(tmp_path: Path, taken: str, port: str) -> None:
    free = f"127.0.0.1:{free_port()}"
    settings = Settings(listen=[free, taken] if port == "listen" else [free])
    if port != "listen":
        settings = replace(settings, **{port: taken})
    broker = penstock.Broker(data=tmp_path, settings=settings)
    with pytest.raises(StartError, match=f"on {taken}: the port is in use"):
        await broker.start()
    directory = DataDirectory(tmp_path)
    directory.lock()
    directory.unlock()
    host, _, number = free.partition(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(number)))


async def test_listeners_are_listed_with_their_protocols() -> None:
    settings = Settings(metrics_listen="127.0.0.1:0")
    async with penstock.Broker(["127.0.0.1:0", "localhost:0"], settings=settings, http="127.0.0.1:0") as broker:
        kinds = [kind for kind, _, _ in broker.node.listeners]
        ports = {port for _, _, port in broker.node.listeners}
        assert (kinds[0], set(kinds[1:-1]), kinds[-1]) == ("http/prometheus", {"amqp"}, "http")
        shown = [*broker.addresses, *broker.http_addresses, *broker.metrics_addresses]
        assert ports == {port for _, port in shown}
        assert broker.driver.process.listeners == broker.node.listeners


async def test_node_without_an_address_is_refused() -> None:
    with pytest.raises(StartError, match=NO_ADDRESS):
        node_of(Settings(), []).check()
    with pytest.raises(StartError, match=NO_ADDRESS):
        await penstock.Broker([], http="off").start()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (Settings(metrics_listen="here"), "--metrics-listen here is not HOST:PORT"),
        (Settings(listen_tls=["here"]), "listen-tls or http-tls here is not HOST:PORT"),
        (Settings(traces_endpoint="ftp://here"), "traces-endpoint "),
    ],
)
def test_check_names_the_setting_that_cannot_be_used(settings: Settings, sentence: str) -> None:
    with pytest.raises(StartError, match=f"^{sentence}"):
        node_of(settings, [("127.0.0.1", 0)]).check()


async def test_reload_changes_what_may_change_and_names_the_rest(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text("[broker]\nslow-turn-ms = 50\nheartbeat-s = 7\n")
    async with penstock.Broker("127.0.0.1:0", settings=load(file)) as broker:
        file.write_text("[broker]\nslow-turn-ms = 80\nheartbeat-s = 9\n")
        reload = broker.reload()
        assert reload is not None
        with caplog.at_level(logging.INFO, "penstock"):
            await reload
        assert (broker.settings.slow_turn_ms, broker.driver.slow_turn_s, broker.settings.heartbeat_s) == (80, 0.08, 7)
        assert "reload: heartbeat-s takes effect only at the start; restart the broker" in caplog.text
        rows = {row["setting"]: row["value"] for row in broker.driver.start_settings.rows}
        assert (rows["slow-turn-ms"], rows["heartbeat-s"]) == (80, 7)


async def test_reload_keeps_options_of_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text("[broker]\nslow-turn-ms = 50\n")
    given = load(file)
    given = replace(given, slow_turn_ms=60, sources=given.sources | {"slow_turn_ms": "command line"})
    async with penstock.Broker("127.0.0.1:0", settings=given) as broker:
        file.write_text("[broker]\nslow-turn-ms = 80\n")
        reload = broker.reload()
        assert reload is not None
        await reload
        assert broker.driver.slow_turn_s == 0.06


async def test_patterns_that_cannot_be_used_keep_all_settings(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text("[broker]\nslow-turn-ms = 50\n")
    async with penstock.Broker("127.0.0.1:0", settings=load(file)) as broker:
        file.write_text('[broker]\nslow-turn-ms = 80\n[queue."("]\ncapacity-messages = "many"\n')
        reload = broker.reload()
        assert reload is not None
        with caplog.at_level(logging.WARNING, "penstock"):
            await reload
        assert broker.driver.slow_turn_s == 0.05
        assert "reload: the old settings stay" in caplog.text
