"""HTTP API of a node beside that of one broker: the same requests have the same statuses and forms of answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.brokers import eventually, serving
from tests.support.http_client import Answer, Web
from tests.support.web_node import WebNode

RIGHTS = {"configure": ".*", "write": ".*", "read": ".*"}
MESSAGE = {"properties": {"delivery_mode": 2}, "routing_key": "q1", "payload": "x", "payload_encoding": "string"}
LIMIT = {"scope": "queue", "pattern": "q*", "settings": {"hold-deadline": "7 s"}}
DEFINITIONS = {"queues": [{"name": "imported", "vhost": "other", "durable": True, "arguments": {}}]}
STEPS: list[tuple[str, str, object]] = [
    ("PUT", "/vhosts/other", {"description": "d"}),
    ("PUT", "/users/ada", {"password": "secret", "tags": "policymaker"}),
    ("PUT", "/users/ada", {"password": "secret", "tags": "management"}),
    ("PUT", "/users/bad", {"password": "a", "password_hash": "b", "tags": ""}),
    ("PUT", "/permissions/other/ada", RIGHTS),
    ("PUT", "/permissions/none/ada", RIGHTS),
    *(("PUT", f"/queues/{vhost}/q{number}", {"durable": True}) for vhost in ("%2F", "other") for number in range(3)),
    ("PUT", "/queues/other/q0", {"durable": True}),
    ("PUT", "/queues/other/q0", {"durable": False}),
    ("PUT", "/queues/other/bad", {"arguments": {"x-max-length": "x"}}),
    ("PUT", "/queues/other/bad", b"{"),
    ("PUT", "/exchanges/other/x", {"type": "fanout"}),
    ("PUT", "/exchanges/other/x", {}),
    ("POST", "/bindings/other/e/x/q/q1", {"routing_key": "a/b"}),
    ("GET", "/bindings/other/e/x/q/q1", None),
    ("POST", "/exchanges/other/x/publish", MESSAGE),
    ("POST", "/exchanges/%2F/amq.default/publish", MESSAGE),
    ("POST", "/queues/other/q1/get", {"ackmode": "ack_requeue_true", "count": 5, "encoding": "auto"}),
    ("PUT", "/policies/other/p", {"pattern": "^q", "definition": {"max-length": 10}}),
    ("PUT", "/parameters/federation-upstream/other/up", {"value": {"uri": "amqp://far"}}),
    ("PUT", "/global-parameters/g", {"value": {"a": 1}}),
    ("PUT", "/vhost-limits/other/max-queues", {"value": 100}),
    ("PUT", "/user-limits/ada/max-connections", {"value": 10}),
    ("PUT", "/penstock/settings?vhost=other", LIMIT),
    ("PUT", "/penstock/settings?vhost=other", {**LIMIT, "everywhere": True}),
    ("PUT", "/penstock/settings", {**LIMIT, "scope": "nonsense"}),
    ("POST", "/penstock/block?vhost=other", {"queue": "q2", "reason": "night"}),
    ("POST", "/penstock/block", {"vhost": "other", "reason": "night"}),
    ("POST", "/penstock/unblock", {"vhost": "other"}),
    ("POST", "/penstock/unblock", {"vhost": "none"}),
    ("POST", "/definitions", {"vhosts": [{"name": "third"}], "queues": [
        {"name": "imported", "vhost": vhost, "durable": True, "auto_delete": False, "arguments": {}}
        for vhost in ("/", "other", "third")]}),
    ("DELETE", "/vhosts/third", None),
    ("POST", "/definitions", {"queues": [{"name": "q", "vhost": "none"}]}),
    ("POST", "/definitions", b"\xff"),
    ("POST", "/definitions", b"{"),
    ("POST", "/definitions?dry_run=true", {"queues": [{"name": "new", "vhost": "other", "durable": True,
                                                       "auto_delete": False, "arguments": {}}]}),
    ("POST", "/definitions/other", {"queues": [{"name": "own", "durable": True, "arguments": {}}]}),
    ("DELETE", "/queues/other/own", None),
    ("DELETE", "/queues/other/own", None),
    ("DELETE", "/connections/none", None),
    ("DELETE", "/vhosts/none", None),
]  # fmt: skip
"""Changes, in their order."""
READS = (
    "/overview", "/overview?columns=node,object_totals", "/nodes", "/nodes/none", "/cluster-name", "/whoami",
    "/vhosts", "/vhosts/other", "/vhosts/none", "/users", "/users/ada", "/users/without-permissions",
    "/permissions", "/users/ada/permissions", "/vhosts/other/permissions", "/queues", "/queues/other",
    "/queues/none", "/queues/other/q1", "/queues?sort=name&sort_reverse=true&columns=name,vhost",
    "/queues?page=1&page_size=2&name=q&columns=name,vhost",
    "/queues?page=2&page_size=3&sort=messages&sort_reverse=true", "/queues?page=9&page_size=2", "/queues?page=x",
    "/queues?page=1&page_size=5&groups=true", "/queues?columns=nonsense", "/exchanges", "/exchanges/other",
    "/exchanges?columns=name,vhost,type", "/bindings", "/bindings/other", "/connections", "/channels", "/consumers",
    "/consumers/other", "/vhosts/other/connections", "/policies", "/policies/other", "/operator-policies",
    "/parameters", "/parameters/federation-upstream", "/parameters/federation-upstream/other", "/global-parameters",
    "/global-parameters/g", "/vhost-limits", "/vhost-limits/other", "/user-limits", "/user-limits/ada",
    "/definitions", "/definitions/other", "/penstock/why", "/penstock/why?queue=q2&vhost=other",
    "/penstock/why?user=ada", "/penstock/why?user=none", "/penstock/info?queue=q1", "/penstock/info?user=ada",
    "/penstock/settings?everywhere=true", "/penstock/settings?scope=queue&name=q1&vhost=other",
    "/penstock/history?seconds=60", "/penstock/history/other?seconds=60", "/penstock/history/other/q1?seconds=60",
    "/penstock/find?q=q", "/penstock/jobs/9999999", "/penstock/alarms", "/penstock/cursors", "/penstock/sinks",
    "/penstock/resources", "/penstock/health", "/health/checks/alarms", "/health/checks/virtual-hosts", "/shovels",
    "/health/checks/port-listener/1", "/aliveness-test/other", "/aliveness-test/none", "/nonsense",
    "/connections/none", "/channels/none", "/penstock/bridges", "/federation-links", "/extensions", "/auth",
)  # fmt: skip


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    folder: Path = tmp_path_factory.mktemp("one")
    with serving(folder, "--data", str(folder / "data"), "--http", "127.0.0.1:0") as process:
        yield Web(process.http)


def form(value: Any) -> Any:
    """Return the form of an answer: its names, and the kinds of its values."""
    if isinstance(value, dict):
        return {name: form(each) for name, each in value.items() if name not in OWN}
    if isinstance(value, list):
        return sorted({str(form(each)) for each in value})
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


OWN = ("listeners", "resources", "certificates", "pools")
"""Fields of answers that differ because a node has other ports, and what users hold of its HTTP is in no shard."""


class Changed:
    """A node and a broker after the same changes."""

    def __init__(self, node: WebNode, broker: Web) -> None:
        self.node = node
        self.broker = broker
        broker.do("PUT", "/vhosts/other", {}, 201)  # A node of tests has it already.
        self.answers = [(method, path, *self.both(method, path, body)) for method, path, body in STEPS]

    def both(self, method: str, path: str, body: object = None) -> tuple[Answer, Answer]:
        return self.node.web.ask(method, path, body), self.broker.ask(method, path, body)


@pytest.fixture(scope="module")
def changed(node: WebNode, broker: Web) -> Changed:
    return Changed(node, broker)


def test_changes_have_the_answers_of_one_broker(changed: Changed) -> None:
    different = [
        (method, path, ours.status, ours.body, theirs.status, theirs.body)
        for method, path, ours, theirs in changed.answers
        if (ours.status, told(ours)) != (theirs.status, told(theirs))
    ]
    assert different == []


def told(answer: Answer) -> Any:
    """Return what must be the same: the words of an error, and the form of all else."""
    if answer.status < 400:
        return form_of(answer)
    return {name: answer.json.get(name) for name in ("error", "reason", "status")}


def form_of(answer: Answer) -> Any:
    return form(answer.json) if answer.body else ""


@pytest.mark.parametrize("path", READS)
def test_read_has_the_status_and_form_of_one_broker(changed: Changed, path: str) -> None:
    ours, theirs = changed.both("GET", path)
    assert (ours.status, told(ours)) == (theirs.status, told(theirs))
    assert "penstock-missing" not in ours.headers
    for name in ("content-type", "cache-control", "content-security-policy"):
        assert ours.headers.get(name) == theirs.headers.get(name)


def names_in(answer: Answer) -> list[tuple[Any, Any]]:
    rows = answer.json["items"] if isinstance(answer.json, dict) else answer.json
    return [(row.get("vhost"), row.get("name")) for row in rows]


@pytest.mark.parametrize(
    "path",
    ["/queues", "/exchanges", "/queues?sort=name&sort_reverse=true", "/queues?page=2&page_size=2&sort=vhost", "/vhosts",
     "/queues?page=1&page_size=3&name=q1", "/policies", "/users", "/exchanges?page=3&page_size=5&name=amq"],
)  # fmt: skip
def test_list_has_the_objects_of_one_broker_in_its_order(changed: Changed, path: str) -> None:
    ours, theirs = changed.both("GET", path)
    assert names_in(ours) == names_in(theirs)


def test_sums_of_the_overview_are_those_of_one_broker(changed: Changed) -> None:
    eventually(lambda: changed.node.web.get("/overview")["queue_totals"]["messages"] == 2, "two messages are counted")
    ours, theirs = changed.both("GET", "/overview")
    assert ours.json["object_totals"] == theirs.json["object_totals"]
