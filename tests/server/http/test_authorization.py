"""Authorization of HTTP: every path and method with every tag, with and without the virtual host.

`MEASURED` is what RabbitMQ 3.10.8 answered to such users; tests/compat/test_access.py asks it again, beside.
"""

from __future__ import annotations

import pytest

from penstock.access.access_table import AccessTable
from penstock.access.operations import ENTERED, HTTP, SEEN
from penstock.access.permission import Permission
from penstock.access.rules import UserRules
from penstock.access.tags import ADMINISTRATOR, MANAGEMENT, MONITORING, POLICYMAKER, grants
from penstock.server.http.authorization import NO_VHOST, REASONS, refusal_of

TAGS = ("", MANAGEMENT, POLICYMAKER, MONITORING, ADMINISTRATOR)
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
    refusal = refusal_of(rules_of(tag, enters), path, method, parts)
    assert refusal is None or refusal.status == 401
    return refusal is None


@pytest.mark.parametrize(("path", "method"), ROWS, ids=lambda value: str(value))
def test_each_path_is_for_its_tag_and_its_virtual_host(path: str, method: str) -> None:
    need = HTTP[path][method]
    for tag in TAGS:
        for enters in (True, False):
            tags = [tag] if tag else []
            by_tag = grants(tags, MANAGEMENT) and grants(tags, need.tag)
            open_to = [ADMINISTRATOR, MONITORING] if need.vhost == SEEN else [ADMINISTRATOR]
            by_vhost = enters or need.vhost not in (ENTERED, SEEN) or tag in open_to
            assert admitted(path, method, tag, enters) == (by_tag and by_vhost), (tag, enters)


@pytest.mark.parametrize(("row", "expected"), MEASURED.items(), ids=lambda value: str(value))
def test_rabbitmq_lets_the_same_users_in(row: tuple[str, str], expected: str) -> None:
    path, method = row
    found = [[admitted(path, method, tag, enters) for enters in (True, False)] for tag in TAGS]
    assert found == [[letter != "-" for letter in pair] for pair in expected.split(" ")]


def test_refusals_have_rabbitmqs_words() -> None:
    for tag, (path, method) in {
        MANAGEMENT: ("/overview", "GET"), MONITORING: ("/nodes", "GET"), POLICYMAKER: ("/parameters", "GET"),
        ADMINISTRATOR: ("/users", "GET"),
    }.items():  # fmt: skip
        have = "" if tag == MANAGEMENT else MANAGEMENT
        assert str(refusal_of(rules_of(have, True), path, method, {})) == REASONS[tag]
    refusal = refusal_of(rules_of(MANAGEMENT, False), "/queues/{vhost}", "GET", {"vhost": "%2F"})
    assert (str(refusal), refusal and refusal.headers) == (NO_VHOST, None)
