"""Commands that declare, bind, list and delete, against a broker on a real port."""

from __future__ import annotations

import re

from pamqp import commands

from penstock.sync import connect
from tests.support.brokers import BrokerProcess, penstock_command
from tests.support.commands import listed, run, told
from tests.support.raw_channel import Connection
from tests.support.raw_client import Peer, open_peer, peer_of


def test_topology_is_declared_listed_and_deleted(broker: BrokerProcess, name: str) -> None:
    said = run(broker, "declare", "queue", name, "--durable", "capacity-messages=100", "hold-deadline=5")
    overflow = "it holds publishers at 100 messages"
    assert said == f"queue {name} is declared; it has 0 messages and 0 consumers; {overflow}\n"
    assert told(broker, "declare", "exchange", name, "--type", "topic") == {"exchange": name, "type": "topic"}
    assert run(broker, "bind", name, name, "--key", "a.#", "k=1") == f"{name} is bound to {name} by 'a.#'\n"
    run(broker, "bind", "amq.fanout", name, "--exchange")
    queue = next(each for each in listed(broker, "queues") if each["name"] == name)
    assert queue["arguments"] == {"capacity-messages": 100, "hold-deadline": 5}
    bindings = [each for each in listed(broker, "bindings") if each["source"] and each["destination"] == name]
    assert [(each["source"], each["destination_type"], each["arguments"]) for each in bindings] == [
        (name, "queue", {"k": 1}),
        ("amq.fanout", "exchange", {}),
    ]
    assert name in [each["name"] for each in listed(broker, "exchanges")]
    run(broker, "unbind", name, name, "--key", "a.#", "k=1")
    run(broker, "unbind", "amq.fanout", name, "--exchange")
    assert [each for each in listed(broker, "bindings") if each["source"] and each["destination"] == name] == []
    assert run(broker, "delete", "queue", name) == f"queue {name} is deleted with 0 messages\n"
    assert run(broker, "delete", "exchange", name) == f"exchange {name} is deleted\n"


def test_tables_are_for_people_and_leave_the_asker_out(broker: BrokerProcess, name: str) -> None:
    run(broker, "declare", "queue", name, "capacity-messages=9")
    run(broker, "publish", name, "one", "two")
    heads, *rows = run(broker, "list", "queues").splitlines()
    assert heads.split()[:7] == ["name", "state", "fill", "messages", "in/s", "out/s", "consumers"]
    row = next(row for row in rows if row.startswith(name))
    parts = re.split(" {2,}", row)
    assert parts[:4] == [name, "no consumer", "22.2 %", "2"]
    assert all(float(rate) >= 0 for rate in parts[4:6]), "in/s and out/s, as of the last pass"
    assert re.fullmatch(r"\d+\.\d s", parts[7]), "the age of the oldest message"
    assert [parts[6], *parts[8:]] == [
        "0", "0", "490", "9 messages", "open", "-", "0", "-", "yes", "capacity-messages=9",
    ]  # fmt: skip
    assert not any("amq.gen" in row for row in rows)
    with Connection(broker.url) as connection:
        connection.channel().consume(name)
        assert [each["queue"]["name"] for each in listed(broker, "consumers")] == [name]
        shown = run(broker, "list", "connections")
        assert "a test" in shown
        assert "penstock-cli" not in shown
        assert len(listed(broker, "channels")) == len(listed(broker, "connections")) == 1


def test_count_of_0_messages_is_refused_by_commands_that_take_messages(broker: BrokerProcess, name: str) -> None:
    for words in (("move", name, "other"), ("copy", name, "other"), ("redrive", name)):
        done = penstock_command("queues", *words, "--count", "0", "--url", broker.url)
        assert done.returncode == 2
        assert "--count must be a whole number from 1, not '0'" in done.stderr


def test_existing_object_is_deleted_with_if_exists(broker: BrokerProcess, name: str) -> None:
    run(broker, "declare", "queue", name)
    assert told(broker, "delete", "queue", name, "--if-exists") == {"queue": name, "deleted": True, "messages": 0}
    run(broker, "declare", "exchange", name)
    assert told(broker, "delete", "exchange", name, "--if-exists") == {"exchange": name, "deleted": True}
    run(broker, "declare", "queue", name)
    run(broker, "publish", name, "x")
    assert "not empty (406)" in run(broker, "delete", "queue", name, "--if-empty", "--if-exists", code=1)
    assert run(broker, "delete", "queue", name) == f"queue {name} is deleted with 1 message\n"


def test_cursors_are_listed_and_deleted(broker: BrokerProcess, name: str) -> None:
    run(broker, "declare", "queue", name)
    run(broker, "publish", name, "one", "two", "three")
    with connect(broker.url, protocol="amqp091") as control:
        token = control.attach_cursor(name, [name]).token
        end = control.plan_batch(name, token, {name: 0}, rows=2).end
        control.settle_cursor(name, token, end)
    (cursor,) = [each for each in listed(broker, "cursors") if each["name"] == name]
    (position,) = cursor["queues"]
    assert (position["queue"], position["settled"], position["planned"], position["tail"]) == (name, 2, 2, 3)
    assert (position["lag"]["messages"], position["holds_back"], position["deleted"]) == (1, True, False)
    assert (cursor["unsettled"], cursor["polling"], cursor["more_queues"]) == (1, False, 0)
    heads, *rows = run(broker, "list", "cursors").splitlines()
    assert re.split(" {2,}", heads) == ["name", "queues", "lag", "bytes", "oldest", "blocks", "reader", "asked last",
                                       "idle since", "expires in"]  # fmt: skip
    row = next(re.split(" {2,}", row) for row in rows if row.startswith(name))
    assert (row[:3], row[5:7]) == ([name, f"{name} 2/3", "1"], ["0", "-"])
    assert re.fullmatch(r"\d+\.\d s", row[4])
    assert re.fullmatch(r"\d+\.\d s ago", row[7])
    assert run(broker, "delete", "cursor", name) == f"cursor {name} is deleted\n"
    assert name not in [each["name"] for each in listed(broker, "cursors")]
    assert run(broker, "get", name, "--ack") == "three\n", "what was not settled is the queue's again"


def test_list_of_many_comes_page_by_page(broker: BrokerProcess, name: str) -> None:
    run(broker, "declare", "vhost", name)
    with Connection(broker.url + name) as connection:
        channel = connection.channel()
        for number in range(1203):
            channel.queue_declare(f"q{number:04}")
    found = listed(broker, "queues", "--everywhere")
    assert [each["name"] for each in found if each["vhost"] == name] == [f"q{number:04}" for number in range(1203)]
    assert run(broker, "delete", "vhost", name) == f"vhost {name} is deleted\n"
    assert "405 resource-locked" in run(broker, "delete", "vhost", "/", code=1)


def enter(peer: Peer, vhost: str) -> tuple[int, str]:
    """Try to work in a virtual host; code and text of the refusal, 0 if there is none."""
    peer.log_in()
    peer.expect(0, commands.Connection.Tune)
    peer.send(0, commands.Connection.TuneOk(2047, 131072, 0), commands.Connection.Open(vhost))
    found = peer.read_method()[1]
    return (found.reply_code or 0, found.reply_text or "") if isinstance(found, commands.Connection.Close) else (0, "")


def test_virtual_host_is_deleted_by_command_with_its_connections(own_broker: BrokerProcess) -> None:
    with peer_of(own_broker) as early:
        assert enter(early, "/moon") == (530, "NOT_ALLOWED - vhost /moon not found")
    declared = penstock_command("declare", "vhost", "/moon", "--url", own_broker.url)
    assert declared.returncode == 0, declared.stderr
    with open_peer(own_broker, vhost="/moon") as inside, open_peer(own_broker) as outside:
        inside.declare()
        deleted = penstock_command("delete", "vhost", "/moon", "--url", own_broker.url)
        assert deleted.returncode == 0, deleted.stderr
        assert inside.refused(0) == (320, "CONNECTION_FORCED - vhost '/moon' is deleted")
        assert outside.is_well()
    with peer_of(own_broker) as late:
        assert enter(late, "/moon")[0] == 530
