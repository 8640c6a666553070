"""Authorization of HTTP: every path and method with every tag, with and without the virtual host.

`MEASURED` is what RabbitMQ 3.10.8 answered to such users; tests/compat/test_access.py asks it again, beside.
"""

from __future__ import annotations

import pytest

from penstock.access.access_table import AccessTable
from penstock.access.permission import ADMINISTRATOR, MANAGEMENT, MONITORING, POLICYMAKER, Permission, grants
from penstock.access.rules import UserRules
from penstock.management.operation import ENTERED, SEEN
from penstock.server.http.app import TABLE
from penstock.server.http.login import NO_VHOST, REASONS, refusal_of
from penstock.sync import connect
from tests.support import access_matrix
from tests.support.brokers import BrokerProcess
from tests.support.http_client import Answer, Web

TAGS = ("", MANAGEMENT, POLICYMAKER, MONITORING, ADMINISTRATOR)
HTTP = {path: {method: place.need for method, place in places.items()} for path, places in TABLE.items()}
ROWS = [(path, method) for path, methods in HTTP.items() for method in methods]
MEASURED = {
    ("/overview", "GET"): "-- mm pp oo aa",
    ("/nodes", "GET"): "-- -- -- oo aa",
    ("/feature-flags", "GET"): "-- -- -- -- aa",
    ("/whoami", "GET"): "-- mm pp oo aa",
    ("/users", "GET"): "-- -- -- -- aa",
    ("/users/{user}", "PUT"): "-- -- -- -- aa",
    ("/permissions/{vhost}/{user}", "PUT"): "-- -- -- -- aa",
    ("/vhosts", "GET"): "-- mm pp oo aa",
    ("/vhosts/{vhost}", "GET"): "-- -- -- -- aa",
    ("/vhosts/{vhost}/connections", "GET"): "-- m- p- o- aa",
    ("/definitions", "GET"): "-- -- -- -- aa",
    ("/connections", "GET"): "-- mm pp oo aa",
    ("/consumers/{vhost}", "GET"): "-- mm pp oo aa",
    ("/queues", "GET"): "-- mm pp oo aa",
    ("/queues/{vhost}", "GET"): "-- m- p- o- aa",
    ("/queues/{vhost}/{name}/bindings", "GET"): "-- m- p- o- aa",
    ("/queues/{vhost}/{name}/actions", "POST"): "-- -- -- -- aa",
    ("/policies", "GET"): "-- mm pp oo aa",
    ("/policies/{vhost}", "GET"): "-- m- p- o- aa",
    ("/policies/{vhost}/{name}", "GET"): "-- -- p- -- aa",
    ("/policies/{vhost}/{name}", "PUT"): "-- -- p- -- aa",
    ("/operator-policies/{vhost}/{name}", "PUT"): "-- -- -- -- aa",
    ("/parameters", "GET"): "-- -- pp -- aa",
    ("/parameters/{component}/{vhost}/{name}", "PUT"): "-- -- p- -- aa",
    ("/global-parameters/{name}", "PUT"): "-- -- pp -- aa",
    ("/vhost-limits/{vhost}", "GET"): "-- m- p- oo aa",
    ("/vhost-limits/{vhost}/{name}", "PUT"): "-- -- -- -- aa",
    ("/health/checks/alarms", "GET"): "-- mm pp oo aa",
}
"""By path and method: who is let in, with a permission in the virtual host and without one, in the order of `TAGS`."""


def rules_of(tag: str, enters: bool) -> UserRules:
    """Return the rules of a user with a tag, and a permission in `/` or none."""
    table = AccessTable({"/": None, "other": None})
    table.put_user("user", None, [tag] if tag else [])
    if enters:
        table.set_permission("user", "/", Permission("", "", ""))
    return UserRules(table, "user")


def admitted(path: str, method: str, tag: str, enters: bool) -> bool:
    parts = {"vhost": "%2F"} if "{vhost}" in path else {}
    refusal = refusal_of(rules_of(tag, enters), HTTP[path][method], parts)
    assert refusal is None or refusal.status == 401
    return refusal is None


@pytest.mark.parametrize(("path", "method"), ROWS, ids=lambda value: str(value))
def test_path_is_allowed_by_its_tag_and_virtual_host(path: str, method: str) -> None:
    need = HTTP[path][method]
    for tag in TAGS:
        for enters in (True, False):
            tags = [tag] if tag else []
            by_tag = grants(tags, MANAGEMENT) and grants(tags, need.tag)
            open_to = [ADMINISTRATOR, MONITORING] if need.vhost == SEEN else [ADMINISTRATOR]
            by_vhost = enters or need.vhost not in (ENTERED, SEEN) or tag in open_to
            assert admitted(path, method, tag, enters) == (by_tag and by_vhost), (tag, enters)


@pytest.mark.parametrize(("row", "expected"), MEASURED.items(), ids=lambda value: str(value))
def test_table_of_paths_admits_the_users_that_rabbitmq_admits(row: tuple[str, str], expected: str) -> None:
    path, method = row
    found = [[admitted(path, method, tag, enters) for enters in (True, False)] for tag in TAGS]
    assert found == [[letter != "-" for letter in pair] for pair in expected.split(" ")]


def test_refusals_have_rabbitmqs_words() -> None:
    for tag, (path, method) in {
        MANAGEMENT: ("/overview", "GET"), MONITORING: ("/nodes", "GET"), POLICYMAKER: ("/parameters", "GET"),
        ADMINISTRATOR: ("/users", "GET"),
    }.items():  # fmt: skip
        have = "" if tag == MANAGEMENT else MANAGEMENT
        assert str(refusal_of(rules_of(have, True), HTTP[path][method], {})) == REASONS[tag]
    refusal = refusal_of(rules_of(MANAGEMENT, False), HTTP["/queues/{vhost}"]["GET"], {"vhost": "%2F"})
    assert (str(refusal), refusal and refusal.headers) == (NO_VHOST, None)


WHERE = "/{vhost}/{name}"
CURSOR = f"/penstock/cursors{WHERE}"
TRANSFER = f"/penstock/queues{WHERE}"
LEASE = "/penstock/leases/{vhost}/{number}"
BINDING = "/bindings/{vhost}/e/{source}/{kind}/{destination}"
TAKEN: dict[tuple[str, str], tuple[str, object]] = {
    (f"/queues{WHERE}", "PUT"): ("/queues/cells/q", {}),
    (f"/queues{WHERE}", "DELETE"): ("/queues/cells/q", None),
    (f"/queues{WHERE}/contents", "DELETE"): ("/queues/cells/q/contents", None),
    (f"/queues{WHERE}/get", "POST"): (
        "/queues/cells/q/get", {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    ),
    (f"/exchanges{WHERE}", "PUT"): ("/exchanges/cells/x", {"type": "topic"}),
    (f"/exchanges{WHERE}", "DELETE"): ("/exchanges/cells/x", None),
    (f"/exchanges{WHERE}/publish", "POST"): (
        "/exchanges/cells/x/publish",
        {"properties": {}, "routing_key": "k", "payload": "m", "payload_encoding": "string"},
    ),
    (BINDING, "POST"): ("/bindings/cells/e/x/q/q", {"routing_key": "k"}),
    (BINDING + "/{key}", "DELETE"): ("/bindings/cells/e/x/q/q/k", None),
    (CURSOR, "GET"): ("/penstock/cursors/cells/c", None),
    (CURSOR, "DELETE"): ("/penstock/cursors/cells/c", None),
    (f"{CURSOR}/move", "POST"): ("/penstock/cursors/cells/c/move", {"to": "latest"}),
    (LEASE, "DELETE"): ("/penstock/leases/cells/NUMBER", None),
    **{
        (f"{TRANSFER}/{verb}", "POST"): (f"/penstock/queues/cells/q/{verb}", {"exchange": "x", "routing_key": "k"})
        for verb in ("move", "copy")
    },
    (f"{TRANSFER}/redrive", "POST"): ("/penstock/queues/cells/q/redrive", {}),
    (f"{TRANSFER}/redrive", "GET"): ("/penstock/queues/cells/q/redrive", None),
    (f"{TRANSFER}/messages/delete", "POST"): ("/penstock/queues/cells/q/messages/delete", {"key": "k"}),
    (f"{TRANSFER}/messages", "GET"): ("/penstock/queues/cells/q/messages", None),
    (f"{TRANSFER}/delayed", "GET"): ("/penstock/queues/cells/q/delayed", None),
    **{
        (f"{TRANSFER}/delayed/{verb}", "POST"): (f"/penstock/queues/cells/q/delayed/{verb}", {"id": "all"})
        for verb in ("send-now", "cancel")
    },
}  # fmt: skip
"""Requests that need permissions, by their rows: what they are for and their bodies."""
MESSAGE = {"properties": {}, "routing_key": "q", "payload": "m", "payload_encoding": "string"}
CELLS = [(*row, need) for row in TAKEN for need in HTTP[row[0]][row[1]].permissions]


def test_rows_with_permissions_for_queues_and_exchanges_are_all_tried() -> None:
    rows = {(path, method) for path, methods in HTTP.items() for method, need in methods.items() if need.permissions}
    others = {row for row in rows if "own connection" in HTTP[row[0]][row[1]].permissions[0]}
    assert set(TAKEN) == rows - others


@pytest.fixture(scope="module")
def cells(served: BrokerProcess) -> tuple[Web, Web]:
    """An administrator, and bob with the tag management, who share the virtual host `cells`."""
    admin = Web(served.http)
    admin.do("PUT", "/vhosts/cells", status=201)
    admin.do("PUT", "/users/bob", {"password": "b", "tags": "management"}, status=201)
    return admin, Web(served.http, "bob", "b")


def asked(cells: tuple[Web, Web], served: BrokerProcess, path: str, method: str, needs: list[str]) -> Answer:
    """Ask as bob with these permissions, for objects that are there."""
    admin, bob = cells
    admin.ask("DELETE", "/queues/cells/q")
    admin.ask("DELETE", "/exchanges/cells/x")
    admin.do("PUT", "/queues/cells/q", {}, status=201)
    admin.do("PUT", "/exchanges/cells/x", {"type": "topic"}, status=201)
    admin.do("POST", "/bindings/cells/e/x/q/q", {"routing_key": "k"}, status=201)
    if path.startswith(CURSOR):
        with connect(served.url + "cells", protocol="amqp091") as control:
            control.attach_cursor("c", ["q"])
    if path.startswith(TRANSFER):
        admin.ask("PUT", "/queues/cells/t", {})
        admin.do("POST", "/bindings/cells/e/x/q/t", {"routing_key": "k"}, status=201)
        admin.do("DELETE", "/bindings/cells/e/x/q/q/k", status=204)
    number = ""
    if path == LEASE:
        admin.do("POST", "/exchanges/cells/amq.default/publish", MESSAGE, 200)
        with connect(served.url + "cells", protocol="amqp091") as control:
            number = str(control.request("lease.open", queues=["q"])["lease"])
    given = access_matrix.grants(needs)
    texts = {"configure": given.configure, "write": given.write, "read": given.read}
    assert admin.ask("PUT", "/permissions/cells/bob", texts).status in (201, 204)
    topics = {"exchange": "x", "write": given.topic_write, "read": given.topic_read}
    assert admin.ask("PUT", "/topic-permissions/cells/bob", topics).status in (201, 204)
    where, body = TAKEN[path, method]
    return bob.ask(method, where.replace("NUMBER", number), body)


@pytest.mark.parametrize(("path", "method"), TAKEN, ids=lambda value: str(value))
def test_request_with_the_permissions_that_it_needs_is_carried_out(
    cells: tuple[Web, Web], served: BrokerProcess, path: str, method: str
) -> None:
    answer = asked(cells, served, path, method, list(HTTP[path][method].permissions))
    assert answer.status in (200, 201, 204), answer


@pytest.mark.parametrize(("path", "method", "need"), CELLS, ids=lambda value: str(value))
def test_request_without_one_of_the_permissions_is_401(
    cells: tuple[Web, Web], served: BrokerProcess, path: str, method: str, need: str
) -> None:
    needs = [each for each in HTTP[path][method].permissions if each != need]
    answer = asked(cells, served, path, method, needs)
    assert (answer.status, answer.json["error"]) == (401, "not_authorised")
    kind = need.partition(" ")[0]
    assert f"{kind} access to " in answer.reason
    assert "refused for user 'bob'" in answer.reason


def test_virtual_host_that_may_not_be_entered_is_refused_as_an_absent_one(served: BrokerProcess, web: Web) -> None:
    web.do("PUT", "/vhosts/hidden", status=201)
    web.do("PUT", "/users/looker", {"password": "x", "tags": "policymaker"}, 201)
    looker = Web(served.http, "looker", "x")
    for path in ("/penstock/why", "/penstock/settings"):
        found = [looker.ask("GET", f"{path}?vhost={name}&queue=q") for name in ("hidden", "absent")]
        assert [each.status for each in found] == [401, 401]
    for path in ("/penstock/block", "/penstock/settings/preview"):
        found = [looker.ask("POST", f"{path}?vhost={name}", {"queue": "q"}) for name in ("hidden", "absent")]
        assert [each.status for each in found] == [401, 401]
