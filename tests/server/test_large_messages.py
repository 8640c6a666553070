"""Large messages on the disk: whole after a kill, or gone; unreadable pieces end their delivery."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pika
import pytest

from penstock.store.data_file import DATA_FILE, begin_of
from penstock.store.postgres import postgres_store
from penstock.store.sqlite import FILE
from tests.support.brokers import eventually, in_background, penstock_command, serving, settings_file, some_name
from tests.support.disk_brokers import closed, kept
from tests.support.faults import Disk, small_disk
from tests.support.pika_helpers import KEPT, LOST, client_of, stopped, take_all
from tests.support.postgres import cluster, needs_postgres
from tests.support.raw_client import Peer, open_peer, publish_frames

MIB = 1024 * 1024
ROOMY = {"capacity-bytes": 1 << 30}
PAGED = {"x-overflow": "page", "capacity-bytes": 4 * MIB}


def some_body(number: int, size: int = 3 * MIB + 77) -> bytes:
    return random.Random(number).randbytes(size)


def asked(tmp_path: Path, question: str) -> int:
    """Ask the store of a running broker for a number."""
    with closing(sqlite3.connect(f"file:{tmp_path / 'data' / FILE}?mode=ro", uri=True)) as connection:
        (found,) = connection.execute(question).fetchone()
        return int(found)


def pieces(tmp_path: Path) -> int:
    return asked(tmp_path, "SELECT count(*) FROM pieces")


def test_confirmed_large_message_is_whole_after_a_kill_and_leaves_nothing_behind(
    tmp_path: Path,
) -> None:
    bodies = [some_body(1), b"small", some_body(2)]
    with kept(tmp_path) as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True, arguments=ROOMY)
        client.publish("q", some_body(3), properties=LOST)
        for body in bodies:
            client.publish("q", body)
        assert pieces(tmp_path) == 2 * 13
        broker.kill()
    with kept(tmp_path) as broker, client_of(broker) as client:
        assert take_all(client.channel, "q", auto_ack=False) == bodies
        eventually(lambda: pieces(tmp_path) == 0, "nothing is left of them")
        assert asked(tmp_path, "SELECT count(*) FROM row_bodies") == 0
        client.publish("q", some_body(4))
        assert asked(tmp_path, "SELECT min(body) FROM pieces") > 3
        assert take_all(client.channel, "q", auto_ack=False) == [some_body(4)]


def test_transient_large_messages_stay_in_memory_up_to_a_bound_and_come_whole(tmp_path: Path) -> None:
    few, many = [some_body(number) for number in range(4)], [some_body(number) for number in range(48)]
    with kept(tmp_path) as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True, arguments=ROOMY)
        for body in few:
            client.publish("q", body, properties=LOST)
        assert take_all(client.channel, "q", auto_ack=False) == few
        assert pieces(tmp_path) == 0
        for body in many:
            client.publish("q", body, properties=LOST)
        eventually(lambda: pieces(tmp_path) >= 8, "144 MiB are more than the broker keeps")
        assert take_all(client.channel, "q", auto_ack=False) == many
        eventually(lambda: pieces(tmp_path) == 0, "nothing is left of them")


def test_transient_large_messages_of_a_paging_queue_come_whole(tmp_path: Path) -> None:
    bodies = [some_body(number) for number in range(6)]
    with kept(tmp_path) as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True, arguments=PAGED)
        for body in bodies:
            client.publish("q", body, properties=LOST)
        eventually(lambda: pieces(tmp_path) > 13, "paged messages have their bodies on the disk")
        assert take_all(client.channel, "q", auto_ack=False) == bodies
        eventually(lambda: pieces(tmp_path) == 0, "nothing is left of them")


def test_large_message_cut_off_by_a_kill_leaves_nothing(tmp_path: Path) -> None:
    whole, coming = some_body(1), some_body(2, 8 * MIB)
    with kept(tmp_path) as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True, arguments=ROOMY)
        client.publish("q", whole)
        with open_peer(broker) as peer:
            peer.say(publish_frames(peer.channel(2), "", "q", coming, {"delivery_mode": 2})[: 5 * MIB])
            eventually(lambda: pieces(tmp_path) > 13 + 10, "a part of it is on the disk")
            broker.kill()
    with kept(tmp_path) as broker, client_of(broker) as client:
        broker.await_logged("large bodies without a message, which are deleted: 1")
        eventually(lambda: pieces(tmp_path) == 13, "only what was confirmed is left")
        assert take_all(client.channel, "q", auto_ack=False) == [whole]


def test_large_messages_of_pages_come_back_in_order_in_the_next_life(tmp_path: Path) -> None:
    bodies = [some_body(number, MIB + 1000 * number) for number in range(8)]
    with kept(tmp_path) as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True, arguments=PAGED)
        for body in bodies[:4]:
            client.publish("q", body)
        assert [client.channel.basic_get("q", auto_ack=True)[2]] == bodies[:1]
        for body in bodies[4:]:
            client.publish("q", body)
        broker.kill()
    with kept(tmp_path) as broker, client_of(broker) as client:
        found = take_all(client.channel, "q", auto_ack=False)
        assert found[-7:] == bodies[1:]
        eventually(lambda: pieces(tmp_path) == 0, "nothing is left of them")


def test_queues_of_an_exchange_share_the_body_of_a_large_message(tmp_path: Path) -> None:
    with kept(tmp_path) as broker, client_of(broker) as client:
        for name in ("a", "b"):
            client.channel.queue_declare(name, durable=True, arguments=ROOMY)
            client.channel.queue_bind(name, "amq.fanout")
        client.channel.basic_publish("amq.fanout", "", some_body(1), KEPT)
        assert pieces(tmp_path) == 13
        assert take_all(client.channel, "a", auto_ack=False) == [some_body(1)]
        client.channel.queue_declare("answered when all before it is written", durable=True)
        assert pieces(tmp_path) == 13
        broker.kill()
    with kept(tmp_path) as broker, client_of(broker) as client:
        assert client.depth("a") == 0
        assert take_all(client.channel, "b", auto_ack=False) == [some_body(1)]
        eventually(lambda: pieces(tmp_path) == 0, "the last queue has given it up")


def test_purged_and_deleted_queues_leave_no_large_body(tmp_path: Path) -> None:
    with kept(tmp_path) as broker, client_of(broker) as client:
        for name, arguments in (("a", ROOMY), ("b", PAGED), ("c", PAGED)):
            client.channel.queue_declare(name, durable=True, arguments=arguments)
            for number in range(6):
                client.publish(name, some_body(number, MIB + 1))
        client.channel.queue_purge("a")
        client.channel.queue_purge("b")
        client.channel.queue_delete("c")
        eventually(lambda: pieces(tmp_path) == 0, "nothing is left")
        assert asked(tmp_path, "SELECT count(*) FROM row_bodies") == 0


def test_damaged_piece_ends_the_connection_that_it_was_for_and_no_other(tmp_path: Path) -> None:
    with kept(tmp_path) as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True, arguments=ROOMY)
        client.publish("q", some_body(1))
        stopped(broker, client.connection)
    with closing(sqlite3.connect(tmp_path / "data" / FILE)) as connection:
        ((place,),) = connection.execute("SELECT data FROM pieces WHERE number % 16777216 = 5")
    with (tmp_path / "data" / DATA_FILE).open("r+b") as file:
        file.seek(begin_of(place))
        file.write(bytes(1000))
    with kept(tmp_path) as broker, client_of(broker) as other:
        with client_of(broker) as client, pytest.raises(pika.exceptions.ConnectionClosedByBroker, match=r"\(541, "):
            client.channel.basic_get("q")
        broker.await_logged("piece 5 of large body 1 is missing in the store, or damaged")
        assert other.depth("q") == 1


def test_broker_with_missing_pieces_refuses_to_start_and_can_be_repaired(tmp_path: Path) -> None:
    with kept(tmp_path) as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True, arguments=ROOMY)
        client.publish("q", some_body(1))
        client.publish("q", b"small")
        client.publish("q", some_body(2))
        stopped(broker, client.connection)
    with closing(sqlite3.connect(tmp_path / "data" / FILE, isolation_level=None)) as connection:
        connection.execute("UPDATE pieces SET seal = seal + 1 WHERE body = 1 AND number % 16777216 = 5")
    report = penstock_command("check", "--data", str(tmp_path / "data"))
    assert "piece 5 of body 1" in report.stdout + report.stderr
    assert "queue 'q' in vhost '/' has lost 1 of 3 messages" in report.stdout + report.stderr
    repaired = penstock_command("repair", "--data", str(tmp_path / "data"), str(tmp_path / "new"))
    assert "has lost 1 of 3 messages" in repaired.stdout + repaired.stderr
    with kept(tmp_path, data=tmp_path / "new") as broker, client_of(broker) as client:
        assert take_all(client.channel, "q", auto_ack=False) == [b"small", some_body(2)]


def test_large_message_that_the_disk_could_not_read_is_there_when_it_can(tmp_path: Path, disk: Disk) -> None:
    body = some_body(1, 12 * MIB)
    with kept(tmp_path) as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True, arguments=ROOMY)
        client.publish("q", body)
        stopped(broker, client.connection)
    with kept(tmp_path, disk) as broker:
        with client_of(broker) as client:
            disk.fail("unreadable")
            with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match=r"\(541, "):
                client.channel.basic_get("q")
        disk.work()
        with client_of(broker) as client:
            assert take_all(client.channel, "q", auto_ack=False) == [body]


def test_large_message_waits_while_its_pieces_cannot_be_written(tmp_path: Path, disk: Disk) -> None:
    body = some_body(1, 6 * MIB)
    with kept(tmp_path, disk) as broker, client_of(broker) as client, client_of(broker) as other:
        client.channel.queue_declare("q", durable=True, arguments=ROOMY)
        disk.fail("full")
        with in_background(lambda: client.publish("q", body)):
            eventually(lambda: closed(broker) == ["store"], "the gate before the store closes")
            other.channel.queue_declare("passing")
            other.publish("passing", b"small", properties=LOST)
            assert other.drain("passing") == [("small", False)]
            assert other.depth("q") == 0
            disk.work()
        assert take_all(client.channel, "q", auto_ack=False) == [body]


@pytest.mark.slow
def test_large_message_without_room_on_the_disk_is_not_read_and_frees_its_space(
    tmp_path: Path,
) -> None:
    options = settings_file(tmp_path, '[broker]\nmin-disk-free = "16MiB"\nhold-deadline = 3\n')
    with (
        small_disk(tmp_path / "small", f"{96 * MIB}") as small,
        kept(tmp_path, None, *options, data=small / "data") as broker,
        client_of(broker) as client,
    ):
        client.channel.queue_declare("q", durable=True, arguments=ROOMY)
        with open_peer(broker) as peer:
            frames = publish_frames(peer.channel(2), "", "q", bytes(120 * MIB), {"delivery_mode": 2})
            with in_background(lambda: _send(peer, frames)):
                broker.await_logged("Filesystem is over ")
                broker.await_logged("a large message has waited 3 s")
        broker.await_logged("Filesystem is no longer over ")
        client.publish("q", some_body(1))
        assert take_all(client.channel, "q", auto_ack=False) == [some_body(1)]


def _send(peer: Peer, frames: bytes) -> None:
    with contextlib.suppress(OSError):  # The broker ends the connection.
        peer.say(frames)


@needs_postgres
def test_database_has_large_messages_as_a_folder_has(tmp_path: Path) -> None:
    bodies = [some_body(1), some_body(2, MIB + 1)]
    with cluster() as server:
        url = server.url(schema=some_name("store"))
        schema = postgres_store(url).address.schema

        def count() -> int:
            return int(server.ask(f'SELECT count(*) FROM "{schema}".pieces')[0][0])

        with serving(tmp_path, "--store", url) as broker, client_of(broker) as client:
            client.channel.queue_declare("q", durable=True, arguments=ROOMY)
            for body in bodies:
                client.publish("q", body)
            with open_peer(broker) as peer:
                coming = publish_frames(peer.channel(2), "", "q", some_body(3, 8 * MIB), {"delivery_mode": 2})
                peer.say(coming[: 5 * MIB])
                eventually(lambda: count() > 18 + 8, "a part of it is in the database")
                broker.kill()
        with serving(tmp_path, "--store", url) as broker, client_of(broker) as client:
            broker.await_logged("large bodies without a message, which are deleted: 1")
            assert take_all(client.channel, "q", auto_ack=False) == bodies
            eventually(lambda: count() == 0, "nothing is left of them")


def test_large_message_that_waits_for_room_is_reported_as_blocked(tmp_path: Path) -> None:
    """Its connection is not read, so no gate has a producer that it blocks."""
    with kept(tmp_path) as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True, arguments=ROOMY)
        heard: list[str] = []
        client.connection.add_on_connection_blocked_callback(lambda _, method: heard.append(method.method.reason))
        client.connection.add_on_connection_unblocked_callback(lambda *_: heard.append("unblocked"))
        broker.command("set", "broker", "disk-overfull=64KiB")
        with in_background(lambda: client.publish("q", some_body(1))):
            eventually(lambda: "is not read" in broker.why(), "its input waits for the store")
            said = broker.why()
            assert "is not read: its large message waits for room in the store" in said
            assert "the disk (quota): " in said
            assert "advice: consume stored messages, or raise disk-overfull (`penstock broker show`)" in said
            assert "; no publish is held by it now, large messages may wait\n" in broker.why("q")
            lists = broker.command("list", "connections", "--columns", "penstock.paused")
            assert lists.splitlines()[1:] == ["yes"]
            broker.command("set", "broker", "disk-overfull=none")
        eventually(lambda: client.depth("q") == 1, "it is taken when there is room")
        assert broker.why() == "no producer is blocked\n"
        eventually(lambda: client.connection.process_data_events(0) or heard[1:], "it is told that it is over")
        assert heard[0].startswith("the disk (quota): ")
        assert heard[0].endswith("; a large message waits 25 s at most")
        assert heard[1:] == ["unblocked"]
