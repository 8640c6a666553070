"""Data directories that a broker cannot use: each is refused with its sentence, and stays unchanged."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from penstock.store.commit_counter import COUNTER_FILE
from penstock.store.salvage import FRAME, HEADER
from penstock.store.schema import PAGE_SIZE
from penstock.store.sqlite import FILE
from tests.support.brokers import penstock_command, serving
from tests.support.disk_brokers import refused
from tests.support.faults import fill, small_disk
from tests.support.pika_helpers import client_of

PAGE = {"x-overflow": "page", "capacity-messages": 10}


def change(data: Path, *statements: str) -> bytes:
    """Change the store, and return what is in its file then."""
    data.mkdir(exist_ok=True)
    with closing(sqlite3.connect(data / FILE)) as connection, connection:
        for statement in statements:
            connection.execute(statement)
    return (data / FILE).read_bytes()


def without_rights(folder: Path) -> list[str]:
    """Make a folder that this process's children may not write, and return the words that they begin with."""
    folder.mkdir()
    if os.geteuid() != 0:
        folder.chmod(0o500)
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("There is no setpriv, and root may write everywhere.")
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    folder.chmod(0o755)
    return [setpriv, "--bounding-set=-dac_override,-dac_read_search,-fowner,-chown"]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with a queue of 300 messages and one that has paged 300; tests take copies."""
    folder = tmp_path_factory.mktemp("filled")
    with serving(folder, "--data", str(folder / "data")) as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True)
        client.channel.queue_declare("paged", durable=True, arguments=PAGE)
        for number in range(300):
            client.publish("q", f"{number:010}" * 50)
            client.publish("paged", f"{number:010}" * 50)
    return folder / "data"


@pytest.fixture
def data(filled: Path, tmp_path: Path) -> Path:
    return shutil.copytree(filled, tmp_path / "data")


def test_folder_that_may_not_be_written(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    before = without_rights(folder)
    assert refused(folder, *before) == (
        f"cannot use data directory '{folder}': it may not be written by this user; "
        "give its owner the right to, or name another with --data"
    )
    assert list(folder.iterdir()) == []


def test_folder_on_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", "1m") as small:
        fill(small / "ballast")
        said = refused(small / "data")
        assert "No space left on device" in said or "there is no room left" in said
        (small / "ballast").unlink()
        with serving(tmp_path, "--data", str(small / "data")) as broker:
            assert broker.alive()


def test_folder_of_another_program(tmp_path: Path) -> None:
    octets = change(tmp_path / "data", "CREATE TABLE bookmarks (url)", "PRAGMA application_id = 42")
    assert refused(tmp_path / "data") == (
        f"'{tmp_path}/data/{FILE}' is not a store of Penstock but a SQLite database of another program "
        "(application id 42); name another folder with --data"
    )
    assert (tmp_path / "data" / FILE).read_bytes() == octets


def test_folder_from_the_future(data: Path) -> None:
    octets = change(data, "PRAGMA user_version = 7", "UPDATE about SET value = '3.2.1'")
    said = refused(data)
    assert said.startswith(f"the store '{data}/{FILE}' was last opened by Penstock 3.2.1 and has schema version 7; ")
    assert said.endswith(": start Penstock 3.2.1 or a newer one")
    assert (data / FILE).read_bytes() == octets


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_truncated_store_is_refused_and_its_rest_saved(data: Path, tmp_path: Path, share: float) -> None:
    octets = (data / FILE).read_bytes()
    cut = octets[: int(len(octets) * share)]
    (data / FILE).write_bytes(cut)
    said = refused(data)
    assert "damaged" in said
    assert "penstock store repair" in said
    assert (data / FILE).read_bytes() == cut
    saved = tmp_path / "saved"
    done = penstock_command("repair", str(saved), "--data", str(data))
    assert done.returncode == 0, done.stderr
    assert "lost: " in done.stdout
    with serving(tmp_path, "--data", str(saved)) as broker, client_of(broker) as client:
        left = {name: [body for body, _ in client.drain(name)] for name in ("q", "paged")}
    for bodies in left.values():
        assert all(body == body[:10] * 50 for body in bodies)
        assert bodies == sorted(set(bodies))
    assert 0 < sum(map(len, left.values())) < 600


STEP = FRAME.size + PAGE_SIZE
"""Octets of a frame of the log."""


@pytest.fixture(scope="module")
def left_behind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory whose broker was killed when 50 messages were confirmed, one transaction each."""
    folder = tmp_path_factory.mktemp("left")
    with serving(folder, "--data", str(folder / "data")) as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True)
        client.publish("q", *[f"{number:010}" for number in range(50)])
        broker.kill()
    return folder / "data"


@pytest.fixture
def killed_data(left_behind: Path, tmp_path: Path) -> Path:
    return shutil.copytree(left_behind, tmp_path / "killed")


def remove(log: Path) -> None:
    log.unlink()


def cut_in_the_middle(log: Path) -> None:
    os.truncate(log, HEADER.size + (log.stat().st_size - HEADER.size) // STEP // 2 * STEP)


def cut_the_last_frame(log: Path) -> None:
    os.truncate(log, log.stat().st_size - STEP)


def flip_a_bit_of_the_last_frame(log: Path) -> None:
    octets = bytearray(log.read_bytes())
    octets[-STEP // 2] ^= 1
    log.write_bytes(octets)


@pytest.mark.parametrize("change", [remove, cut_in_the_middle, cut_the_last_frame, flip_a_bit_of_the_last_frame])
def test_store_that_lost_confirmed_messages_is_refused_with_their_number(
    killed_data: Path, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    change(killed_data / f"{FILE}-wal")
    before = {path.name: path.read_bytes() for path in killed_data.iterdir() if path.name.startswith(FILE)}
    said = refused(killed_data)
    found = re.fullmatch(
        rf"the store '{killed_data}/{FILE}' has lost the last (\d+ )?transactions? of (\d+), which brought "
        rf"(\d+|no) messages?: its log '{FILE}-wal' was removed, cut off or damaged at its end, .*",
        said,
    )
    assert found is not None, said
    missing = 0 if found[3] == "no" else int(found[3])
    assert {name: (killed_data / name).read_bytes() for name in before if "-shm" not in name} == {
        name: octets for name, octets in before.items() if "-shm" not in name
    }
    assert penstock_command("check", "--data", str(killed_data)).stderr.strip().endswith(said)
    done = penstock_command("repair", str(tmp_path / "saved"), "--data", str(killed_data))
    assert done.returncode == 0, done.stderr
    assert f"{missing} messages" in done.stderr
    assert "lost: 1 record, the end of the log, of whatever queues, has lost at least 0 and at most" in done.stdout
    with serving(tmp_path, "--data", str(tmp_path / "saved")) as broker, client_of(broker) as client:
        if change is remove:
            assert missing == 50
            return
        left = [body for body, _ in client.drain("q")]
    assert left == [f"{number:010}" for number in range(50 - missing)]


def test_data_directory_of_an_earlier_version_starts_and_is_counted_from_then_on(data: Path, tmp_path: Path) -> None:
    """It has neither the count nor its row in the table of sums, and no tables for large messages."""
    change(
        data,
        "DROP TABLE pieces",
        "DROP TABLE row_bodies",
        "DELETE FROM sums WHERE name IN ('commits', 'pieces', 'row_bodies')",
        "PRAGMA user_version = 2",
    )
    (data / COUNTER_FILE).unlink()
    with serving(tmp_path, "--data", str(data)) as broker, client_of(broker) as client:
        client.publish("q", "new")
        assert client.depth("q") == 301
        broker.kill()
    (data / f"{FILE}-wal").unlink()
    assert ", which brought 1 message: its log" in refused(data)
