"""Where each command acts: in the virtual host of --url alone, unless it asks for all."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import sync as penstock
from penstock.cli.grammar import PLACES, places, rows
from penstock.client.errors import ControlError
from penstock.operations.command import EITHER, VHOST
from tests.support.brokers import BrokerProcess, some_name
from tests.support.commands import run

WORDS = {
    "bindings declare": "logs orders --key new",
    "bindings delete": "logs orders --key eu",
    "cursors create": "reports orders",
    "bridges declare": "rome more amqp://127.0.0.1:1",
    "bridges delete": "paris",
    "bridges pause": "paris",
    "bridges resume": "resting",
    "cursors delete": "billing",
    "cursors move": "billing latest",
    "exchanges block": "logs",
    "exchanges declare": "news",
    "exchanges delete": "logs",
    "exchanges set": "logs capacity-messages=7",
    "exchanges unblock": "closed",
    "exchanges unset": "logs",
    "operator-policies delete": "short",
    "operator-policies set": "long ^none$ max-length=1",
    "permissions delete": "USER",
    "permissions set": "USER ^new .* .*",
    "policies delete": "short",
    "policies set": "long ^none$ max-length=1",
    "queues block": "orders",
    "queues consume": "orders --count 1 --ack",
    "queues copy": "orders more",
    "queues declare": "another",
    "queues delete": "orders",
    "queues get": "orders --ack",
    "queues move": "orders more",
    "queues publish": "orders another",
    "queues purge": "orders",
    "queues set": "orders capacity-messages=7",
    "queues unblock": "closed",
    "queues unset": "orders",
}
"""Arguments of commands that change something in a virtual host."""
LOOKS = {
    "bridges list": "",
    "bridges show": "paris",
    "cursors show": "billing",
    "exchanges show": "logs",
    "exchanges info": "logs",
    "queues info": "orders",
    "messages browse": "orders",
    "messages delayed": "orders",
    "queues show": "orders",
    "top": "--once --limit 400",
    **{f"{noun} list": "" for noun in ("bindings", "consumers", "cursors", "exchanges", "leases", "sinks", "queues")},
    **{f"{noun} list": "" for noun in ("channels", "connections", "permissions", "policies", "operator-policies")},
    "parameters list": "",
    "settings": "",
}
"""Arguments of commands that look at a virtual host."""
READERS = {
    "bridges restart": "tests/operations/test_bridges.py: a bridge of its virtual host",
    "cursors release": "tests/ranges/test_cursor_table.py: a cursor that has left a queue, in its virtual host",
    "messages cancel": "tests/operations/test_delayed.py: messages of a queue in its virtual host",
    "messages send-now": "the same",
    "messages delete": "tests/operations/test_message_filter.py: messages of a queue in its virtual host",
    "leases end": "tests/ranges/test_leases.py: a lease of another virtual host is not found",
    "queues redrive": "tests/operations/test_transfers.py: to the queues of the virtual host of its dead letters",
    "sinks assign": "tests/ranges/test_sinks.py: marks are kept by virtual host",
    "sinks end": "the same",
    "queues watch": "tests/management/test_flow_log_records.py: events of a queue in its virtual host",
}
"""Commands whose objects only readers and writers of Spark make, or that do not end, with their tests."""


class Hosts:
    """Two virtual hosts with objects of the same names, and one object with a name of its own each."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker, self.user = broker, some_name("user")
        self.here, self.there = some_name("here"), some_name("there")
        with penstock.connect(broker.url, protocol="amqp091") as client:
            client.request("user.declare", name=self.user)
            for name in (self.here, self.there):
                client.declare_vhost(name)
        for name in (self.here, self.there):
            with penstock.connect(f"{broker.url}{name}", protocol="amqp091") as client:
                self._fill(client, name)

    def _fill(self, client: penstock.Connection, vhost: str) -> None:
        for queue in ("orders", "more", "closed", f"of-{vhost}"):
            client.declare_queue(queue)
        for exchange in ("logs", "closed"):
            client.declare_exchange(exchange, "topic")
        client.bind("orders", "logs", "eu")
        for queue in ("orders", f"of-{vhost}"):
            with client.publisher(queue=queue) as publisher:
                publisher.publish(b"one")
        client.create_cursor("billing", [f"of-{vhost}"])
        client.set("queue", "orders", {"hold-deadline": 5})
        client.set("address", "logs", {"capacity-messages": 90})
        for scope in ("queue", "address"):
            client.block(scope, "closed")
        for operator in (False, True):
            fields = {"name": "short", "pattern": f"^of-{vhost}", "definition": {"max-length": 9}}
            client.request("policy.set", **fields, operator=operator)
        for name in ("paris", "resting"):
            client.request("bridge.declare", name=name, source="more", target="amqp://127.0.0.1:1")
        client.request("bridge.pause", name="resting")
        client.request("permission.set", user=self.user, configure=vhost, write="", read="")

    def picture(self, vhost: str) -> dict[str, Any]:
        """Return all that can be seen of a virtual host."""
        with penstock.connect(f"{self.broker.url}{vhost}", protocol="amqp091") as client:
            found: dict[str, Any] = {
                name: [each for each in rows if self._is_of(each, vhost)]
                for name, rows in client.export_definitions().items()
                if isinstance(rows, list)
            }
            found["depths"] = {
                each["name"]: (each["messages"], each["penstock"]["tail"], each["penstock"]["cursors"])
                for each in client.list("queues")
                if not each["exclusive"]
            }
            found["positions"] = {
                each["name"]: [(at["queue"], at["settled"], at["planned"]) for at in each["queues"]]
                for each in client.list("cursors")
            }
            found["bridges"] = [(each["name"], each["user"]) for each in client.list("bridges")]
            found["queues held"] = [
                (name, gate["open"])
                for name in ("closed", "orders")
                if name in found["depths"]
                for gate in client.request("why", queue=name)["gates"]
            ]
            found["exchanges held"] = sorted(name for name in ("logs", "closed") if self._is_held(client, name))
        return found

    @staticmethod
    def _is_held(client: penstock.Connection, exchange: str) -> bool:
        """Return whether the operator holds an exchange: only then it can be unblocked. It is held again afterwards."""
        try:
            client.unblock("address", exchange)
        except ControlError:
            return False
        client.block("address", exchange)
        return True

    @staticmethod
    def _is_of(row: dict[str, Any], vhost: str) -> bool:
        return row.get("vhost") == vhost or str(row.get("pattern", "")).startswith(f"{vhost}/")


@pytest.fixture
def hosts(broker: BrokerProcess) -> Hosts:
    return Hosts(broker)


def test_command_of_a_virtual_host_is_tried_here() -> None:
    of_vhosts = {path for path, place in places().items() if place in (VHOST, EITHER)}
    assert of_vhosts == WORDS.keys() | LOOKS.keys() | READERS.keys()


def test_command_with_another_place_is_in_the_table() -> None:
    asking = {path for path in PLACES if path.split()[0] not in ("serve", "help", "man", "completion", "bench")}
    without_broker = {path for path in asking if path.split()[0] in ("store", "tls", "flow", "logs", "bridges")}
    assert places().keys() - PLACES.keys() == rows().keys()
    assert asking - without_broker - places().keys() == {"definitions check", "stop", "version"}


@pytest.mark.parametrize("path", sorted(WORDS))
def test_command_changes_the_virtual_host_of_its_url_only(hosts: Hosts, path: str) -> None:
    before = hosts.picture(hosts.here), hosts.picture(hosts.there)
    run(hosts.broker, *path.split(), *WORDS[path].replace("USER", hosts.user).split(), vhost=hosts.here)
    after = hosts.picture(hosts.here), hosts.picture(hosts.there)
    assert after[1] == before[1], "as before in the other one"
    assert after[0] != before[0]


@pytest.mark.parametrize("path", sorted(path for path, place in places().items() if path in WORDS and place == EITHER))
def test_command_changes_all_virtual_hosts_if_it_is_asked_to(hosts: Hosts, path: str) -> None:
    words = (*path.split(), *WORDS[path].split(), "--everywhere")
    if "unset" in path:  # What was set for all of them.
        scope = "queue" if "queues" in path else "address"
        with penstock.connect(hosts.broker.url, protocol="amqp091") as client:
            client.set(scope, WORDS[path], {"capacity-messages": 5}, everywhere=True)
    said = run(hosts.broker, *words, vhost=hosts.here)
    assert "of all virtual hosts matches" in said
    name = WORDS[path].split()[0]
    with penstock.connect(hosts.broker.url, protocol="amqp091") as client:
        for vhost in (hosts.here, hosts.there):
            entries = [each for each in client.settings() if each["pattern"] == name]
            assert [each.get("vhost") for each in entries] == ([] if "unset" in path else [None]), vhost
        if "unset" not in path:
            client.unset("queue" if "queues" in path else "address", name, everywhere=True)


@pytest.mark.parametrize("path", sorted(LOOKS))
def test_look_is_at_the_virtual_host_of_its_url_only(hosts: Hosts, path: str) -> None:
    said = run(hosts.broker, *path.split(), *LOOKS[path].split(), "--json", vhost=hosts.here)
    assert hosts.there not in said
    if places()[path] == EITHER:
        everywhere = run(hosts.broker, *path.split(), *LOOKS[path].split(), "--json", "--everywhere", vhost=hosts.here)
        assert hosts.there in everywhere or path in EMPTY


EMPTY = {
    *(f"{noun} list" for noun in ("channels", "connections", "consumers", "leases", "sinks", "parameters")),
}
"""Lists in which the scene has nothing."""
