"""Virtual hosts over HTTP, and their definitions in RabbitMQ's format: imports are all or nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.access.password_hash import rabbitmq_hash
from penstock.sync import connect
from tests.support.brokers import BrokerProcess, eventually, serving
from tests.support.commands import run
from tests.support.http_client import Web
from tests.support.raw_channel import Connection


@pytest.fixture
def its(own_served: BrokerProcess) -> Web:
    return Web(own_served.http)


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """A client of a broker that stays as it was at its start."""
    with serving(tmp_path_factory.mktemp("unchanged"), "--http", "127.0.0.1:0") as process:
        yield Web(process.http)
        assert "Traceback" not in process.log()


TOPOLOGY: dict[str, Any] = {
    "vhosts": [{"name": "/"}, {"name": "eu"}],
    "queues": [
        {"vhost": "/", "name": "orders", "type": "classic", "durable": True, "auto_delete": False,
         "arguments": {"x-max-length": 10}},
        {"vhost": "eu", "name": "größe", "type": "classic", "durable": False, "auto_delete": False, "arguments": {}},
    ],
    "exchanges": [
        {"vhost": "/", "name": "logs", "type": "topic", "durable": True, "auto_delete": False, "internal": False,
         "arguments": {}},
    ],
    "bindings": [
        {"vhost": "/", "source": "logs", "destination": "orders", "destination_type": "queue", "routing_key": "a.#",
         "arguments": {"k": 1}},
        {"vhost": "/", "source": "amq.fanout", "destination": "logs", "destination_type": "exchange",
         "routing_key": "", "arguments": {}},
    ],
    "policies": [
        {"vhost": vhost, "name": "orders.#", "pattern": "^orders(\\..*)?$", "apply-to": "queues", "priority": 0,
         "definition": {"hold-deadline": 7, "message-ttl": 60000}}
        for vhost in ("/", "eu")
    ],
}  # fmt: skip


def declared(web: Web) -> dict[str, Any]:
    found = web.get("/definitions")
    return {section: found[section] for section in TOPOLOGY}


def test_imported_definitions_are_exported_and_imported_again_without_a_change(
    own_served: BrokerProcess, its: Web
) -> None:
    its.do("POST", "/definitions", TOPOLOGY)
    assert declared(its) == TOPOLOGY
    its.do("POST", "/definitions", its.get("/definitions"))
    assert declared(its) == TOPOLOGY
    with connect(own_served.url, protocol="amqp091") as control:
        shown = {each["setting"]: each["value"] for each in control.show("queue", "orders")}
        assert control.export_definitions() == its.get("/definitions")
    assert shown["hold-deadline"] == 7


def test_export_for_rabbitmq_is_that_of_the_command(own_served: BrokerProcess, its: Web) -> None:
    definition = {"max-length": 5, "capacity-bytes": 9}
    its.do("PUT", "/policies/%2F/bound", {"pattern": "^never$", "definition": definition}, status=201)
    found = its.get("/definitions?for=rabbitmq")
    assert [each["definition"] for each in found["policies"]] == [{"max-length": 5}]
    assert json.loads(run(own_served, "definitions", "export", "--for-rabbitmq")) == found
    refused = its.ask("GET", "/definitions?for=artemis")
    assert (refused.status, refused.reason) == (400, "for must be rabbitmq, or be left out")


def test_vhosts_definitions_are_for_any_vhost(its: Web) -> None:
    its.do("POST", "/definitions", TOPOLOGY)
    of_one = its.get("/definitions/eu")
    assert of_one["queues"] == [
        {"name": "größe", "type": "classic", "durable": False, "auto_delete": False, "arguments": {}}
    ]
    assert "vhosts" not in of_one
    its.do("POST", "/definitions/%2F", {**of_one, "policies": []})
    assert its.get("/queues/%2F/gr%C3%B6%C3%9Fe")["vhost"] == "/"
    assert its.ask("POST", "/definitions/nowhere", of_one).status == 404


GUEST_HASH = rabbitmq_hash("guest", b"salt").text()


def test_file_of_rabbitmqs_is_read(its: Web) -> None:
    file = {
        "rabbit_version": "3.10.8",
        "rabbitmq_version": "3.10.8",
        "product_name": "RabbitMQ",
        "product_version": "3.10.8",
        "users": [{"name": "guest", "password_hash": GUEST_HASH, "tags": ["administrator"]}],
        "permissions": [{"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}],
        "topic_permissions": [],
        "parameters": [],
        "global_parameters": [{"name": "internal_cluster_id", "value": "c"}],
        "policies": [
            {"vhost": "/", "name": "all", "pattern": ".*", "apply-to": "all", "priority": 3,
             "definition": {"max-length": 100, "ha-mode": "all"}},
        ],
        "queues": [{"vhost": "/", "name": "q", "durable": True, "auto_delete": False, "arguments": []}],
    }  # fmt: skip
    its.do("POST", "/definitions", file)
    assert its.get("/policies/%2F")[0]["definition"] == {"max-length": 100, "ha-mode": "all"}
    assert its.get("/global-parameters") == file["global_parameters"]
    assert its.get("/users/guest")["tags"] == ["administrator"]


def changed(**sections: Any) -> dict[str, Any]:
    return {**json.loads(json.dumps(TOPOLOGY)), **sections}


QUEUE = {"vhost": "/", "name": "new"}
POLICY = {"vhost": "/", "name": "p", "pattern": "^orders$", "definition": {"max-length": 5}}


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (changed(queus=[]), "a file of definitions has no key 'queus'; did you mean queues?"),
        (changed(queues={}), "queues must be a list, not {}"),
        (changed(queues=[QUEUE, "x"]), "queues[1] must be an object, not 'x'"),
        (changed(queues=[QUEUE, {**QUEUE, "durable": True}]), "queues[1]: queue 'new' in vhost '/' is defined twice"),
        (changed(bindings=[{**TOPOLOGY["bindings"][0], "destination": "none"}]), "bindings[0]: no queue 'none'"),
        (changed(policies=[{**POLICY, "definition": {"max-lenght": 5}}]), "policy 'p' of vhost '/' has no key"),
        (changed(settings=[{"scope": "queue", "pattern": "a*", "settings": {"expires": 5}}]), "settings[0]: queue"),
        (changed(parameters=[{"component": "shovel", "vhost": "/", "name": "", "value": 1}]), "parameters[0]: "),
    ],
)  # fmt: skip
def test_invalid_definitions_are_refused_with_the_line_and_nothing_is_imported(
    unchanged: Web, file: Any, reason: str
) -> None:
    before = unchanged.get("/definitions")
    text = json.dumps(file, indent=2, ensure_ascii=False)
    answer = unchanged.ask("POST", "/definitions", text.encode())
    assert (answer.status, answer.json["error"]) == (400, "bad_request")
    assert reason in answer.reason
    assert answer.reason.endswith(("; nothing was imported", "? Nothing was imported"))
    assert unchanged.get("/definitions") == before
    assert unchanged.get("/bindings") == []
    place = re.match(r"line (\d+)(?:, ([^:]+))?: ", answer.reason)
    assert place is not None
    line = text.splitlines()[int(place[1]) - 1]
    if place[2] is None:
        assert '"que' in line or '"x"' in line
    elif not place[2].endswith("]"):
        assert f'"{place[2].split(".")[-1]}"' in line


def test_malformed_json_is_refused_with_its_line(unchanged: Web) -> None:
    answer = unchanged.ask("POST", "/definitions", b'{\n  "queues": [\n    {,\n  ]\n}')
    assert answer.reason.startswith("line 3, column 6: ")
    assert unchanged.ask("POST", "/definitions", b"[]").reason.startswith("line 1, column 1: an object is expected")
    assert unchanged.ask("POST", "/definitions", b'{"queues":"\xff"}').reason == (
        "line 1, column 12: not UTF-8; nothing was imported"
    )
    assert "nested" in unchanged.ask("POST", "/definitions", b'{"queues":[' + b"[" * 20_000 + b"]").reason
    assert "half a character" in unchanged.ask("POST", "/definitions", b'{"explanation": "\\ud800"}').reason
    assert unchanged.ask("POST", "/definitions", b"x").status == 400


def test_import_that_fails_at_its_end_undoes_policies_and_keeps_former_objects(its: Web) -> None:
    its.do("PUT", "/queues/%2F/orders", {"durable": True, "arguments": {"x-max-length": 10}}, status=201)
    its.do("PUT", "/policies/%2F/orders.%23", {"pattern": ".*", "definition": {"max-length": 8}}, status=201)
    its.publish("orders", "kept")
    before = its.get("/definitions")
    broken = changed(bindings=[*TOPOLOGY["bindings"], {**TOPOLOGY["bindings"][0], "destination": "none"}])
    assert its.ask("POST", "/definitions", broken).status == 400
    assert [message["payload"] for message in its.take("orders")] == ["kept"]
    assert its.get("/definitions") == before
    assert its.get("/queues/%2F/orders")["effective_policy_definition"] == {"max-length": 8}


def test_dry_run_of_an_import_lists_changes_and_omits_skipped_kinds(its: Web) -> None:
    before = its.get("/definitions")
    told = its.ask("POST", "/definitions?dry_run=true&skip=bindings,policies", TOPOLOGY).json
    assert [(each["kind"], each["change"]) for each in told["differences"]] == [
        ("vhosts", "created"), ("exchanges", "created"), ("queues", "created"), ("queues", "created"),
    ]  # fmt: skip
    assert (told["unchanged"], told["not_imported"]) == ({"vhosts": 1}, {"bindings": 2, "policies": 2})
    assert its.get("/definitions") == before
    its.do("POST", "/definitions?skip=bindings,policies", TOPOLOGY)
    assert its.get("/definitions")["policies"] == []
    refused = its.ask("POST", "/definitions?skip=polices", TOPOLOGY)
    assert "a file of definitions has no kind 'polices'; did you mean policies?" in refused.reason


def test_vhost_is_created_and_deleted_with_its_objects(served: BrokerProcess, web: Web, name: str) -> None:
    web.do("PUT", f"/vhosts/{name}", status=201)
    web.do("PUT", f"/vhosts/{name}", {"description": "d", "tags": "a,b"}, status=204)
    assert web.get(f"/vhosts/{name}")["description"] == "d"
    web.do("PUT", f"/queues/{name}/q", {}, status=201)
    assert web.get(f"/vhosts/{name}")["messages"] == 0
    connection = Connection(served.url + name)
    channel = connection.channel()
    channel.publish(b"x", routing_key="q")
    eventually(lambda: web.get(f"/vhosts/{name}")["messages"] == 1, "the message is counted")
    assert [each["vhost"] for each in web.get(f"/vhosts/{name}/connections")] == [name]
    web.do("DELETE", f"/vhosts/{name}")
    with pytest.raises(Exception, match=f"vhost '{name}' is deleted"):
        channel.queue_declare("q")
    assert web.ask("GET", f"/vhosts/{name}").status == 404
    assert web.ask("DELETE", f"/vhosts/{name}").status == 404
    assert name not in [vhost["name"] for vhost in web.get("/vhosts")]
    web.do("PUT", f"/vhosts/{name}", status=201)
    assert web.get(f"/queues/{name}") == []
    web.do("DELETE", f"/vhosts/{name}")
