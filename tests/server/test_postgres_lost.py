"""A PostgreSQL server that hangs, is killed, read-only or full, under a whole broker.

Persistent messages wait, other work goes on, and no confirmed message is lost.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pika
import pytest

from tests.support.brokers import BrokerProcess, eventually, in_background, penstock_command, serving, some_name
from tests.support.commands import refused
from tests.support.disk_brokers import closed, crossings, take
from tests.support.faults import mount
from tests.support.http_client import Web
from tests.support.pika_helpers import LOST, client_of
from tests.support.postgres import PROGRAMS, Cluster, needs_postgres, small_disk
from tests.support.stalls import undisturbed

pytestmark = [needs_postgres, pytest.mark.slow]
SLOW_S = 90.0
"""Patience with a broker whose server says nothing: its gate closes after ten seconds, and it ends in about as many."""


@pytest.fixture
def database(server: Cluster) -> Iterator[str]:
    """A database of one test alone; its server runs."""
    name = some_name("store")
    server.ask(f'CREATE DATABASE "{name}"')
    yield name
    if not server.is_running():
        server.start()


@contextmanager
def kept(tmp_path: Path, server: Cluster, database: str, *options: str) -> Iterator[BrokerProcess]:
    """Run a broker on a database."""
    with serving(tmp_path, "--store", server.url(database), *options) as broker:
        yield broker
        assert "Traceback" not in broker.log()


def assert_that_all_else_goes_on(broker: BrokerProcess, numbers: list[str]) -> None:
    """What is in the queue can be had; what is not kept passes; an alarm is told over HTTP, with the gate's reason."""
    with client_of(broker) as reader:
        assert take(reader, "q", len(numbers)) == numbers
        reader.publish("passing", "to a queue that is not kept")
        reader.publish("q", "transient", properties=LOST)
        assert reader.drain("passing") == [("to a queue that is not kept", False)]
    web = Web(broker.http)
    answer = web.ask("GET", "/health/checks/alarms")
    assert (answer.status, [alarm["resource"] for alarm in answer.json["alarms"]]) == (503, ["disk"])
    shown = penstock_command("status", "--url", broker.url).stdout
    assert [line.split()[:3] for line in shown.splitlines() if line.startswith("gate ")] == [
        ["gate", "store", "closed"]
    ]


def beat_until_the_gate_closes(broker: BrokerProcess) -> None:
    """Exchange heartbeats with a broker whose server says nothing: ten seconds, or some where its gate is closed."""
    begun = time.monotonic()
    with pika.BlockingConnection(pika.URLParameters(f"{broker.url}?heartbeat=1")) as beating:

        def has_closed() -> bool:
            beating.process_data_events(0.1)  # A broker that does not hear us is gone after two seconds.
            return time.monotonic() > begun + 5 and closed(broker) == ["store"]

        eventually(has_closed, "the gate closes", SLOW_S)


def test_postgresql_that_hangs_or_is_killed_holds_persistent_messages_only(
    server: Cluster, database: str, tmp_path: Path
) -> None:
    place = f"database '{database}' at '{server.folder}', port {server.port}"
    with kept(tmp_path, server, database, "--http", "127.0.0.1:0") as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True)
        client.channel.queue_declare("passing")
        client.publish("q", *[str(number) for number in range(20)])
        server.pause()
        with in_background(lambda: client.publish("q", "in flight", "held")) as publishing:
            undisturbed(lambda: beat_until_the_gate_closes(broker), broker)
            said = re.search(r"by the disk \(store\): the store in (.*) has not answered for (\d+)", broker.why("q"))
            assert (said[1], int(said[2]) >= 10) == (place, True)
            assert_that_all_else_goes_on(broker, ["0", "1", "2"])
            assert publishing.is_alive()
            server.resume()
        eventually(lambda: closed(broker) == [], "the gate opens by itself")
        server.kill()
        with in_background(lambda: client.publish("q", "another", "held again")) as publishing:
            eventually(lambda: "; is the server running there?" in broker.why("q"), "the gate closes")
            assert f"by the disk (store): cannot reach the store in {place}: " in broker.why("q")
            assert_that_all_else_goes_on(broker, ["3", "4"])
            assert publishing.is_alive()
            server.start()
        eventually(lambda: closed(broker) == [], "the gate opens by itself")
        eventually(
            lambda: [line[:8] for line in crossings(broker)] == ["PST-1012", "PST-1013"] * 2, "both are logged, twice"
        )
        broker.kill()
    with kept(tmp_path, server, database) as broker, client_of(broker) as client:
        found = [body for body, _ in client.drain("q")]
        assert found == [*map(str, range(5, 20)), "in flight", "held", "another", "held again"]


def test_read_only_database_holds_persistent_messages_only(server: Cluster, database: str, tmp_path: Path) -> None:
    why = "the database may only be read; is this server a replica, or default_transaction_read_only set?"
    with kept(tmp_path, server, database, "--http", "127.0.0.1:0") as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True)
        client.channel.queue_declare("passing")
        client.publish("q", *map(str, range(10)))
        server.ask("ALTER SYSTEM SET default_transaction_read_only = on")
        server.ask("SELECT pg_reload_conf()")
        eventually(lambda: server.ask("SHOW default_transaction_read_only") == [("on",)], "the server has the setting")
        with in_background(lambda: client.publish("q", "in flight", "held")):
            eventually(lambda: closed(broker) == ["store"], "the gate closes")
            assert why in broker.why("q")
            assert_that_all_else_goes_on(broker, ["0", "1"])
            server.ask("ALTER SYSTEM RESET default_transaction_read_only")
            server.ask("SELECT pg_reload_conf()")
        eventually(lambda: closed(broker) == [], "the gate opens by itself")
        eventually(lambda: len(crossings(broker)) == 2, "both are logged")
        (closing, opening) = crossings(broker)
        assert closing.startswith("PST-1012 : Store cannot be written, flow control will be enforced : cannot write")
        assert closing.endswith(why)
        assert opening == "PST-1013 : Store can be written again"
        broker.kill()
    with kept(tmp_path, server, database) as broker, client_of(broker) as client:
        assert [body for body, _ in client.drain("q")] == [*map(str, range(2, 10)), "in flight", "held"]


def test_server_whose_disk_is_full_holds_persistent_messages_until_there_is_room(
    server: Cluster, database: str, tmp_path: Path
) -> None:
    with small_disk(server) as folder:
        with kept(tmp_path, server, database, "--http", "127.0.0.1:0") as broker, client_of(broker) as client:
            client.channel.queue_declare("q", durable=True)
            client.channel.queue_declare("passing")
            client.publish("q", "0", "1")
            server.ask(f"CREATE TABLESPACE small LOCATION '{folder}'")
            server.ask("ALTER TABLE penstock.rows SET TABLESPACE small", database=database)
            large = [str(number) * 1_000_000 for number in range(10)]
            with in_background(lambda: client.publish("q", *large)):
                eventually(lambda: closed(broker) == ["store"], "the gate closes")
                assert "there is no room left for it on the server's disk" in broker.why("q")
                assert_that_all_else_goes_on(broker, ["0", "1"])
                assert mount(folder, "remount,size=64m")
            eventually(lambda: closed(broker) == [], "the gate opens by itself")
            broker.kill()
        with kept(tmp_path, server, database) as broker, client_of(broker) as client:
            assert [body for body, _ in client.drain("q")] == large
        server.ask(f'DROP DATABASE "{database}" WITH (FORCE)')
        server.ask("DROP TABLESPACE small")


def test_broker_stops_on_request_though_its_server_does_not_answer(
    server: Cluster, database: str, tmp_path: Path
) -> None:
    with kept(tmp_path, server, database) as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True)
        client.publish("q", "confirmed")
        server.pause()
        unconfirmed = client.connection.channel()
        unconfirmed.basic_publish("", "q", b"not confirmed", pika.BasicProperties(delivery_mode=2))
        eventually(lambda: client.depth("q") == 2, "the broker has it")
        client.connection.close()
        broker.process.terminate()
        assert broker.process.wait(SLOW_S) == 0
        server.resume()
        assert "the store could not be written in time: " in broker.log()
    with kept(tmp_path, server, database) as broker, client_of(broker) as client:
        assert client.drain("q")[0] == ("confirmed", True), "it may have been delivered while the server was away"


@pytest.mark.parametrize("options", [(), ("--standby",)])
def test_server_that_is_down_at_the_start_is_reported_with_advice(
    server: Cluster, database: str, options: tuple[str, ...]
) -> None:
    server.stop()
    url = f"postgresql://penstock:secret@127.0.0.1:{server.port}/{database}"
    done = penstock_command("serve", "--listen", "127.0.0.1:0", "--store", url, *options)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"penstock: cannot reach the store in database '{database}' at '127.0.0.1', port {server.port}: "
        "Connection refused; is the server running there?\n"
    )


# Other commands


def test_store_is_checked_while_no_broker_has_it(server: Cluster, database: str, tmp_path: Path) -> None:
    place, url = f"database '{database}' at '{server.folder}', port {server.port}", server.url(database)
    empty = penstock_command("check", "--store", url)
    assert (empty.returncode, empty.stderr) == (1, f"penstock: there is no store of Penstock in {place}\n")
    assert server.ask("SELECT 1 FROM pg_namespace WHERE nspname = 'penstock'", database=database) == []
    with kept(tmp_path, server, database) as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True)
        client.publish("q", "a", "b")
        busy = penstock_command("check", "--store", url)
        assert busy.returncode == 1
        assert f"is in use by another broker: process {broker.pid} on host" in busy.stderr
    assert penstock_command("check", "--store", url).stdout == f"{place} is in order\n"
    server.ask("UPDATE penstock.rows SET data = 'other'", database=database)
    damaged = penstock_command("check", "--store", url)
    assert damaged.returncode == 1
    assert ": its checksum is wrong\n" in damaged.stderr
    assert f"penstock: {place} is damaged in " in damaged.stderr
    refused = penstock_command("serve", "--listen", "127.0.0.1:0", "--store", url)
    assert refused.returncode == 1
    assert "; `penstock store check --store URL` tells all of it; restore the database from a backup" in refused.stderr


@pytest.mark.parametrize("command", ["backup", "repair"])
def test_backup_and_repair_of_postgresql_are_left_to_its_own_tools(command: str, tmp_path: Path) -> None:
    new = str(tmp_path / "new")
    said = refused(command, new, "--store", "postgresql://anna:secret@db1/orders?schema=ours")
    way = {
        "backup": "backed up with pg_dump, which may run while brokers use it: pg_dump --schema=ours --format=custom "
        "--file=FILE URL",
        "repair": "restored from a backup with pg_restore: pg_restore --dbname=URL FILE",
    }
    place = "schema 'ours' of database 'orders' at 'db1', port 5432"
    assert said == f"the store in {place} is {way[command]} (docs/postgres.md)"
    assert refused(command, new, "--store", "/var/lib/penstock") == refused("serve", "--store", "/var/lib/penstock")
    done = penstock_command(command, new, "--data", new, "--store", "postgresql:///orders")
    assert (done.returncode, "--data and --store exclude each other" in done.stderr) == (2, True)
    assert not (tmp_path / "new").exists()


def test_dump_of_a_running_broker_restores_to_a_store(server: Cluster, database: str, tmp_path: Path) -> None:
    dump = tmp_path / "dump"
    with kept(tmp_path, server, database) as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True)
        client.publish("q", "a", "b")
        assert PROGRAMS is not None
        words = [PROGRAMS / "pg_dump", "--schema=penstock", "--format=custom", f"--file={dump}", server.url(database)]
        subprocess.run(words, check=True, timeout=60)
        client.publish("q", "c")
    restored = some_name("restored")
    server.ask(f'CREATE DATABASE "{restored}"')
    subprocess.run([PROGRAMS / "pg_restore", f"--dbname={server.url(restored)}", dump], check=True, timeout=60)
    with kept(tmp_path, server, restored) as broker, client_of(broker) as client:
        assert [body for body, _ in client.drain("q")] == ["a", "b"]
