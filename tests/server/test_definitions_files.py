"""Files of definitions at the start of a broker: what is read, and a start that imports them before its ports open."""

from __future__ import annotations

import json
import logging
import os
import signal
from pathlib import Path

import pytest

import penstock
from penstock.errors import StartError
from penstock.operations.definitions_parser import BYTES_MOST
from penstock.server import definitions_files
from penstock.server.definitions_files import check_definitions, read_definitions
from penstock.settings.config import Settings, load
from tests.support.brokers import in_process, serving, settings_file
from tests.support.commands import listed, refused

QUEUE = {"name": "orders", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}


def write(path: Path, **sections: object) -> Path:
    path.write_text(json.dumps(sections))
    return path


def test_folder_is_read_in_the_order_of_names_without_hidden_files(tmp_path: Path) -> None:
    for name in ("20.json", "10.json", ".hidden.json", "notes.txt"):
        write(tmp_path / name, queues=[])
    assert [Path(each.name).name for each in read_definitions(tmp_path)] == ["10.json", "20.json"]


def test_single_file_is_read_whatever_its_name(tmp_path: Path) -> None:
    (found,) = read_definitions(write(tmp_path / "broker.definitions", queues=[]))
    assert found.data == b'{"queues": []}'


def test_path_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").mkdir()
    for name, reason in (
        ("missing.json", "cannot be read: No such file or directory"),
        ("pipe", "is neither a file nor a folder"),
        ("empty", ": the folder has no file *.json"),
    ):
        with pytest.raises(StartError) as error:
            read_definitions(tmp_path / name)
        assert str(error.value).startswith(f"definitions '{tmp_path / name}'")
        assert str(error.value).endswith(reason)


def test_file_of_ten_gigabytes_is_refused_without_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(10 << 30)
    with pytest.raises(StartError, match=f"has more than {BYTES_MOST:,} bytes"):
        read_definitions(path)


def test_folder_has_bounds_of_files_and_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        write(tmp_path / f"{name}.json", queues=[])
    monkeypatch.setattr(definitions_files, "FOLDER_BYTES_MOST", 20)
    with pytest.raises(StartError, match="the files have more than 20 bytes together"):
        read_definitions(tmp_path)
    monkeypatch.setattr(definitions_files, "FILES_MOST", 2)
    with pytest.raises(StartError, match="the folder has 3 files; the most is 2"):
        read_definitions(tmp_path)


def test_check_names_file_line_and_key(tmp_path: Path) -> None:
    check_definitions(write(tmp_path / "good.json", queues=[QUEUE]))
    bad = write(tmp_path / "bad.json", queues=[{"name": "a"}])
    with pytest.raises(StartError) as error:
        check_definitions(bad)
    assert str(error.value).startswith(
        f"definitions '{bad}': line 1, queues[0]: an entry of queues needs the key vhost"
    )
    said = refused("serve", "--memory", "--check", "--definitions", str(bad))
    assert said == str(error.value)


async def test_start_imports_before_ports_open_and_only_what_differs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "penstock")
    path = write(tmp_path / "a.json", queues=[QUEUE])
    settings = Settings(definitions=str(path))
    async with in_process(settings=settings, data=tmp_path / "data") as broker:
        assert "orders" in broker.driver.broker.vhost("/").queues
        assert f"definitions '{path}': imported; 1 queue created" in caplog.messages
        said = [each.message for each in caplog.records]
        ready = next(number for number, text in enumerate(said) if text.startswith("Ready"))
        assert said.index(f"definitions '{path}': imported; 1 queue created") < ready
    caplog.clear()
    async with in_process(settings=settings, data=tmp_path / "data"):
        assert f"definitions '{path}': unchanged; nothing was imported" in caplog.messages


async def test_refused_definitions_stop_the_start_and_leave_the_store_as_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "definitions"
    folder.mkdir()
    write(folder / "1.json", queues=[QUEUE])
    bad = write(folder / "2.json", queues=[{**QUEUE, "name": "b", "arguments": {"capacity-bites": 1}}])
    settings = Settings(definitions=str(folder), metrics_listen="127.0.0.1:0")
    broker = in_process(settings=settings, data=tmp_path / "data")
    with pytest.raises(StartError, match=f"^definitions '{bad}': line 1, queues"):
        await broker.start()
    assert not broker.addresses
    async with in_process(data=tmp_path / "data") as another:
        assert not another.driver.broker.vhost("/").queues


async def test_missing_file_stops_the_start(tmp_path: Path) -> None:
    broker = penstock.Broker("127.0.0.1:0", settings=Settings(definitions=str(tmp_path / "missing.json")))
    with pytest.raises(StartError, match=r"cannot be read: No such file or directory"):
        await broker.start()


async def test_reload_imports_nothing_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock")
    path = write(tmp_path / "a.json", queues=[QUEUE])
    config = tmp_path / "penstock.toml"
    config.write_text(f"[broker]\ndefinitions = '{path}'\n")
    async with in_process(settings=load(config)) as broker:
        write(path, queues=[QUEUE, {**QUEUE, "name": "more"}])
        reloading = broker.reload()
        assert reloading is not None
        await reloading
        assert set(broker.driver.broker.vhost("/").queues) == {"orders"}
    assert any("definitions are read at the start only" in text for text in caplog.messages)


def test_option_and_setting_import_at_a_real_start(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", queues=[QUEUE])
    with serving(tmp_path, "--definitions", str(path)) as broker:
        assert [row["name"] for row in listed(broker, "queues")] == ["orders"]
    with serving(tmp_path, *settings_file(tmp_path, f"[broker]\ndefinitions = '{path}'\n")) as broker:
        assert [row["name"] for row in listed(broker, "queues")] == ["orders"]


def test_imported_definitions_are_in_the_store_when_the_broker_is_ready(tmp_path: Path, store: tuple[str, str]) -> None:
    queues = [{**QUEUE, "name": f"q{number}"} for number in range(500)]
    path = write(tmp_path / "a.json", queues=queues)
    with serving(tmp_path, *store, "--definitions", str(path)) as broker:
        os.kill(broker.pid, signal.SIGKILL)
        broker.process.wait()
    with serving(tmp_path, *store) as broker:
        assert len(listed(broker, "queues")) == 500
