"""Definitions of a real RabbitMQ: imported here and exported again without loss.

With PENSTOCK_BESIDE=rabbitmq the definitions are made and exported at that moment. Otherwise the tests read
`rabbitmq_definitions.json`, the export of a RabbitMQ 3.10.8, and `rabbitmq_effective.json`, the policies that it
applied to each queue.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from bench import processes
from bench.brokers import RABBITMQ, RabbitmqNode
from tests.support.brokers import BrokerProcess, eventually, serving
from tests.support.commands import run
from tests.support.http_client import Web

BESIDE = RABBITMQ in os.environ.get("PENSTOCK_BESIDE", "").split()
RECORDED = Path(__file__).with_name("rabbitmq_definitions.json")
EFFECTIVE = Path(__file__).with_name("rabbitmq_effective.json")
PLUGINS = ("rabbitmq_federation", "rabbitmq_shovel")

POLICIES = (
    ("/", "all", ".*", {"ha-mode": "exactly", "ha-params": 2, "max-length": 100_000}, 0, "all"),
    ("/", "celery", "^celery", {"message-ttl": 3_600_000, "queue-mode": "lazy"}, 5, "queues"),
    ("/", "not-amq", r"^(?!amq\.).*", {"federation-upstream-set": "all"}, 1, "exchanges"),
    ("eu", "base", "", {"max-length": 4000, "expires": 99_000_000, "overflow": "drop-head"}, -9, "queues"),
    ("eu", "lost", r"^orders\.", {"alternate-exchange": "lost"}, 0, "exchanges"),
    ("eu", "dead", "^(orders|bills)$", {"dead-letter-exchange": "dlx", "overflow": "reject-publish"}, -3, "queues"),
)
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("add_vhost", "eu", "--description", "orders of Europe", "--tags", "production,eu"),
    ("add_user", "anna", "secret of anna"),
    ("add_user", "größe", "secret of größe"),
    ("set_user_tags", "anna", "policymaker", "monitoring"),
    ("set_permissions", "-p", "eu", "anna", "^anna-.*", ".*", "^(orders|bills)$"),
    ("set_permissions", "-p", "/", "größe", "", "^$", ".*"),
    ("set_topic_permissions", "-p", "eu", "anna", "amq.topic", "^{username}\\.", ".*"),
    ("set_user_limits", "anna", '{"max-connections": 7, "max-channels": 70}'),
    ("set_vhost_limits", "-p", "eu", '{"max-connections": 50, "max-queues": 500}'),
    *(
        ("set_policy", "-p", vhost, name, pattern, json.dumps(definition), "--priority", str(priority),
         "--apply-to", apply_to)
        for vhost, name, pattern, definition, priority, apply_to in POLICIES
    ),
    ("set_operator_policy", "-p", "eu", "ceiling", ".*", '{"max-length": 5000, "expires": 86400000}',
     "--priority", "9", "--apply-to", "queues"),
    ("set_parameter", "-p", "eu", "federation-upstream", "far",
     '{"uri": "amqp://far.example.com", "expires": 3600000}'),
    ("set_parameter", "-p", "/", "shovel", "moves", json.dumps(
        {"src-protocol": "amqp091", "src-uri": "amqp://", "src-queue": "celery", "dest-protocol": "amqp091",
         "dest-uri": "amqp://far.example.com", "dest-queue": "celery"})),
    ("set_global_parameter", "mqtt_default_vhosts", '{"O=client,CN=guest": "/"}'),
    ("set_cluster_name", "rabbit@production"),
)  # fmt: skip
ACCESS = ("users", "permissions", "topic_permissions")
"""Sections of the access of users."""


def declare(url: str) -> None:
    """Declare queues, exchanges and bindings in both virtual hosts."""
    for vhost, names in (("%2F", ("celery", "celeryev.1", "plain")), ("eu", ("orders", "bills", "größe"))):
        with pika.BlockingConnection(pika.URLParameters(f"{url}/{vhost}")) as connection:
            channel = connection.channel()
            for exchange, kind in (("orders.in", "topic"), ("lost", "fanout"), ("dlx", "headers")):
                arguments = {"alternate-exchange": "lost"} if kind == "headers" else {}
                channel.exchange_declare(exchange, kind, durable=True, arguments=arguments)
            for name in names:
                given = {"x-max-length": 9000, "x-dead-letter-exchange": "dlx"} if name == "bills" else {}
                channel.queue_declare(name, durable=True, arguments=given)
                channel.queue_bind(name, "orders.in", "orders.#")
            channel.queue_declare("quorum", durable=True, arguments={"x-queue-type": "quorum", "x-delivery-limit": 7})
            channel.queue_bind("quorum", "dlx", "", {"x-match": "any", "kind": "late", "number": 5})
            channel.exchange_bind("lost", "orders.in", "lost")


def effective(web: Web) -> dict[str, list[Any]]:
    """Return the policies that apply to each queue, and their common definition."""
    shown = ("policy", "operator_policy", "effective_policy_definition")
    found = {f"{queue['vhost']} {queue['name']}": [queue.get(name) for name in shown] for queue in web.get("/queues")}
    return {name: [*policies, definition or {}] for name, (*policies, definition) in sorted(found.items())}


def made_there(scratch: Path) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Make everything in a RabbitMQ by its own tools; return what it exports, and the policies of each queue."""
    http_port = processes.free_port()
    node = RabbitmqNode(scratch, http_port, PLUGINS)
    process = node.launch()
    try:
        port = node.port(process)
        for command in COMMANDS:
            done = node.control(*command)
            assert done.returncode == 0, (command, done.stderr)
        for vhost in ("/", "eu"):
            node.control("set_permissions", "-p", vhost, "guest", ".*", ".*", ".*")
        declare(f"amqp://guest:guest@127.0.0.1:{port}")
        web = Web(f"http://127.0.0.1:{http_port}")
        eventually(lambda: len([each for each in effective(web).values() if each[0]]) == 7, "it has gathered", 60)
        applied = effective(web)
        file = scratch / "definitions.json"
        done = node.control("export_definitions", str(file))
        assert done.returncode == 0, done.stderr
    finally:
        processes.stop(process)
        node.close()
    return json.loads(file.read_text()), applied


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """RabbitMQ's export, and the policies of each queue."""
    if BESIDE:
        return made_there(tmp_path_factory.mktemp("theirs"))
    return json.loads(RECORDED.read_text()), json.loads(EFFECTIVE.read_text())


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker with a store, and nothing in it."""
    with serving(tmp_path, "--http", "127.0.0.1:0", "--data", str(tmp_path / "data")) as process:
        yield process
        assert "Traceback" not in process.log()


def normal(section: str, entries: list[dict[str, Any]]) -> list[str]:
    """Return entries in an order, and without what is told elsewhere as well."""
    found = []
    for entry in entries:
        kept = dict(entry)
        if section == "users" and kept["name"] == "guest":  # Its login has replaced the hash by scrypt.
            del kept["password_hash"], kept["hashing_algorithm"]
            kept.pop("penstock_password_hash", None)
        elif section == "vhosts":
            kept.pop("limits", None)  # A parameter of the component vhost-limits.
        elif section == "queues":
            kept.pop("type", None)  # The argument x-queue-type.
        elif section == "exchanges" and not kept.get("internal"):
            kept.pop("internal", None)
        if kept.get("component") == "operator_policy" and isinstance(kept["value"]["definition"], list):
            kept["value"] = {**kept["value"], "definition": dict(kept["value"]["definition"])}  # As rabbitmqctl has it.
        if section == "vhosts":
            kept.setdefault("metadata", {"description": "Default virtual host", "tags": []})
        found.append(json.dumps(kept, sort_keys=True))
    return sorted(found)


def lost(theirs: dict[str, Any], ours: dict[str, Any], sections: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the entries that only one side has, by section."""
    found = {}
    for section in sections:
        one, other = normal(section, theirs[section]), normal(section, ours[section])
        if one != other:
            found[section] = sorted(set(one) ^ set(other))
    return found


KEPT = (*ACCESS, "vhosts", "policies", "parameters", "global_parameters", "queues", "exchanges", "bindings")


def test_definitions_of_a_real_rabbitmq_are_imported_and_exported_unchanged(
    there: tuple[dict[str, Any], dict[str, list[Any]]], ours: BrokerProcess, tmp_path: Path
) -> None:
    theirs, applied = there
    file = tmp_path / "theirs.json"
    file.write_text(json.dumps(theirs, indent=2))
    told = run(ours, "definitions", "import", str(file), "--dry-run")
    assert "refused" not in told
    moves = "parameter 'moves' of component 'shovel' in vhost '/': created; paused; `penstock bridges resume moves`"
    assert moves in told
    run(ours, "definitions", "import", str(file))
    web = Web(ours.http)
    assert lost(theirs, web.get("/definitions"), KEPT) == {}
    again = run(ours, "definitions", "import", str(file), "--dry-run")
    assert "0 to be created, 0 to be changed" in again
    assert effective(web) == applied
    assert applied["eu orders"] == [
        "dead", "ceiling",
        {"dead-letter-exchange": "dlx", "overflow": "reject-publish", "max-length": 5000, "expires": 86_400_000},
    ]  # fmt: skip
    assert applied["/ celeryev.1"][0] == "celery"
    assert web.get("/exchanges/eu/orders.in")["policy"] == "lost"
    assert web.get("/exchanges/%2F/orders.in")["policy"] == "not-amq"
    assert web.get("/exchanges/%2F/amq.topic")["policy"] == "all"


@pytest.mark.skipif(not BESIDE, reason="needs a RabbitMQ")
def test_rabbitmq_imports_an_export_for_rabbitmq(ours: BrokerProcess, tmp_path: Path) -> None:
    """Without `--for-rabbitmq` it refuses the file for a key that it does not know."""
    definition = {"max-length": 5, "overflow": "drop-head", "capacity-bytes": 9}
    Web(ours.http).do("PUT", "/policies/%2F/bound", {"pattern": "^q", "definition": definition}, status=201)
    with pika.BlockingConnection(pika.URLParameters(ours.url)) as connection:
        arguments = {"x-overflow": "block", "capacity-bytes": 1_000_000, "x-max-length": 3}
        connection.channel().queue_declare("held", durable=True, arguments=arguments)
    whole, fit = tmp_path / "whole.json", tmp_path / "fit.json"
    run(ours, "definitions", "export", str(whole))
    run(ours, "definitions", "export", "--for-rabbitmq", str(fit))
    node = RabbitmqNode(tmp_path, processes.free_port(), ())
    process = node.launch()
    try:
        node.port(process)
        refused = node.control("import_definitions", str(whole))
        assert refused.returncode != 0
        assert "capacity-bytes" in refused.stdout + refused.stderr
        taken = node.control("import_definitions", str(fit))
        assert taken.returncode == 0, taken.stdout + taken.stderr
        assert '{"max-length":5,"overflow":"drop-head"}' in node.control("list_policies").stdout.replace(", ", ",")
        assert "held" in node.control("list_queues", "name").stdout
    finally:
        processes.stop(process)
        node.close()
