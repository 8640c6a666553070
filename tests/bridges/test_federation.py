"""Federation of a whole broker: upstreams and policies by name, links in the worker, and what is left of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.brokers import BrokerProcess, eventually, serving
from tests.support.http_client import Web

ANY = {"configure": ".*", "write": ".*", "read": ".*"}


class House:
    """A broker with virtual hosts that are each other's upstreams."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.web = Web(broker.http)
        self.connections: list[pika.BlockingConnection] = []

    def put(self, path: str, body: object) -> None:
        answer = self.web.ask("PUT", path, body)
        assert answer.status in (201, 204), answer.text

    def vhost(self, name: str) -> None:
        self.put(f"/vhosts/{name}", {})
        self.put(f"/permissions/{name}/guest", ANY)

    def upstream(self, vhost: str, name: str, **value: object) -> None:
        given = {key.replace("_", "-"): each for key, each in value.items()}
        self.put(f"/parameters/federation-upstream/{vhost}/{name}", {"value": given})

    def policy(self, vhost: str, pattern: str, **definition: object) -> None:
        given = {key.replace("_", "-"): each for key, each in definition.items()}
        self.put(f"/policies/{vhost}/f", {"pattern": pattern, "definition": given})

    def channel(self, vhost: str) -> BlockingChannel:
        self.connections.append(pika.BlockingConnection(pika.URLParameters(f"{self.broker.url.rstrip('/')}/{vhost}")))
        return self.connections[-1].channel()

    def close(self) -> None:
        for connection in self.connections:
            connection.close()

    def links(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.web.ask("GET", "/federation-links").json
        return found

    def keys(self, vhost: str, exchange: str) -> list[str]:
        rows = self.web.ask("GET", f"/exchanges/{vhost}/{exchange}/bindings/source")
        return sorted(row["routing_key"] for row in rows.json) if rows.status == 200 else []

    def queues(self, vhost: str) -> list[str]:
        return sorted(row["name"] for row in self.web.ask("GET", f"/queues/{vhost}").json)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with serving(tmp_path, "--http", "127.0.0.1:0") as broker:
        house = House(broker)
        yield house
        house.close()
        assert "Traceback" not in broker.log()


def test_upstream_and_policy_by_name_move_messages_until_either_is_deleted(house: House) -> None:
    for vhost in ("a", "b"):
        house.vhost(vhost)
    old, new = house.channel("a"), house.channel("b")
    new.exchange_declare("fed.x", "topic", durable=True)
    new.queue_declare("here")
    new.queue_bind("here", "fed.x", "k.#")
    house.policy("b", r"^fed\.", federation_upstream_set="all")
    assert house.links() == []
    house.upstream("b", "up", uri="amqp:///a", expires=60_000)
    eventually(lambda: house.keys("a", "fed.x") == ["k.#"], "the binding at the upstream")
    old.basic_publish("fed.x", "k.1", b"1")
    eventually(lambda: new.basic_get("here", auto_ack=True)[2] == b"1", "the message")
    (link,) = eventually(lambda: [link for link in house.links() if link["status"] == "running"], "the report")
    assert (link["exchange"], link["upstream_exchange"]) == ("fed.x", "fed.x")
    assert (link["vhost"], link["upstream"], link["type"]) == ("b", "up", "exchange")
    (queue,) = [name for name in house.queues("a") if name.startswith("federation: fed.x -> ")]
    assert house.web.ask("POST", "/penstock/bridges/b/up/pause").status == 200
    eventually(lambda: house.links()[0]["status"] == "shutdown", "the pause")
    assert queue in house.queues("a")
    assert house.web.ask("POST", "/penstock/bridges/b/up/resume").status == 200
    old.basic_publish("fed.x", "k.2", b"2")
    eventually(lambda: new.basic_get("here", auto_ack=True)[2] == b"2", "the message")
    assert house.web.ask("DELETE", "/policies/b/f").status == 204
    eventually(lambda: queue not in house.queues("a"), "the end of the upstream queue")
    assert house.links() == []
    assert house.keys("a", "fed.x") == []


def test_queue_that_comes_later_is_linked_and_gone_with_it(house: House) -> None:
    for vhost in ("a", "b"):
        house.vhost(vhost)
    house.upstream("b", "up", uri="amqp:///a")
    house.policy("b", r"^fed\.", federation_upstream="up")
    old, new = house.channel("a"), house.channel("b")
    new.queue_declare("fed.q", durable=True)
    eventually(lambda: "fed.q" in house.queues("a"), "the queue at the upstream")
    old.basic_publish("", "fed.q", b"1", pika.BasicProperties(user_id="guest"))
    got: list[tuple[str | None, bytes]] = []
    new.basic_consume("fed.q", lambda channel, method, properties, body: got.append((properties.user_id, body)), True)

    def look() -> bool:
        new.connection.process_data_events(0.01)
        return bool(got)

    eventually(look, "the message")
    assert got == [(None, b"1")]
    new.queue_delete("fed.q")
    eventually(lambda: house.links() == [], "the end of the link")
    assert "fed.q" in house.queues("a")


def test_upstream_that_is_away_is_told_without_its_password(house: House) -> None:
    house.vhost("b")
    house.policy("b", r"^amq\.topic$", federation_upstream="up")
    house.upstream("b", "up", uri="amqp://user:s3cr3t-word@127.0.0.1:1/a", reconnect_delay=1)

    def down() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = house.web.ask("GET", "/federation-links/state/down").json
        return [link for link in found if link["status"] == "error"]

    (link,) = eventually(down, "the link that is down")
    assert link["uri"] == "amqp://127.0.0.1:1/a"
    assert "cannot be reached" in link["error"]
    rows = house.web.ask("GET", "/penstock/bridges").text
    assert "s3cr3t-word" not in str(link) + rows + house.broker.log()


def test_user_who_may_not_read_the_exchange_has_a_link_that_says_so(house: House) -> None:
    for vhost in ("a", "b"):
        house.vhost(vhost)
    house.put("/users/maker", {"password": "maker-pass", "tags": "policymaker"})
    house.put("/permissions/b/maker", {"configure": "", "write": ".*", "read": "^other$"})
    house.policy("b", r"^amq\.topic$", federation_upstream="up")
    maker = Web(house.broker.http, "maker", "maker-pass")
    value = {"value": {"uri": house.broker.url.rstrip("/") + "/a", "reconnect-delay": 1}}
    assert maker.ask("PUT", "/parameters/federation-upstream/b/up", value).status == 201
    found = eventually(
        lambda: [link for link in house.links() if link["status"] == "error"], "the link that is refused"
    )
    assert "read access to exchange 'amq.topic' in vhost 'b' refused for user 'maker'" in found[0]["error"]


def worker_of(broker: BrokerProcess) -> int:
    """Return the number of the process of a broker's worker; 0 without one."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            words = (path.parent / "cmdline").read_bytes()
            if int(fields[1]) == broker.pid and b"penstock.bridges.worker" in words:
                return int(path.parent.name)
    return 0


def test_killed_worker_comes_back_and_loses_nothing(house: House) -> None:
    for vhost in ("a", "b"):
        house.vhost(vhost)
    house.upstream("b", "up", uri="amqp:///a", reconnect_delay=0.1)
    house.policy("b", r"^fed\.", federation_upstream="up")
    old, new = house.channel("a"), house.channel("b")
    new.exchange_declare("fed.x", "topic", durable=True)
    new.queue_declare("here")
    new.queue_bind("here", "fed.x", "#")
    eventually(lambda: house.keys("a", "fed.x") == ["#"], "the binding at the upstream")
    killed = set()
    found: set[int] = set()
    for part in range(3):
        for number in range(200 * part, 200 * part + 200):
            old.basic_publish("fed.x", "k", b"%d" % number)
        worker = eventually(lambda: worker_of(house.broker), "the worker")
        killed.add(worker)
        os.kill(worker, signal.SIGKILL)
        eventually(lambda worker=worker: worker_of(house.broker) not in (0, worker), "the next worker")  # type: ignore[misc]

    def look() -> bool:
        while (body := new.basic_get("here", auto_ack=True)[2]) is not None:
            found.add(int(body))
        return len(found) == 600

    eventually(look, "all messages")
    assert len(killed) == 3


def test_links_come_back_with_the_store(tmp_path: Path) -> None:
    options = ("--http", "127.0.0.1:0", "--data", str(tmp_path / "data"))
    with serving(tmp_path, *options) as broker:
        house = House(broker)
        for vhost in ("a", "b"):
            house.vhost(vhost)
        house.upstream("b", "up", uri="amqp:///a")
        house.policy("b", r"^fed\.", federation_upstream_set="all")
        new = house.channel("b")
        new.exchange_declare("fed.x", "topic", durable=True)
        new.queue_declare("here", durable=True)
        new.queue_bind("here", "fed.x", "#")
        eventually(lambda: house.keys("a", "fed.x") == ["#"], "the binding at the upstream")
        house.close()
        broker.kill()
    with serving(tmp_path, *options) as broker:
        house = House(broker)
        house.channel("a").basic_publish("fed.x", "k", b"1")
        new = house.channel("b")
        eventually(lambda: new.basic_get("here", auto_ack=True)[2] == b"1", "the message")
        house.close()
        assert "Traceback" not in broker.log()
