"""Paths that are derived from operations: statuses, errors and fields."""

from __future__ import annotations

import pytest

from tests.support.brokers import some_name
from tests.support.http_client import Web


def test_absent_virtual_host_has_rabbitmqs_words_in_reads_and_a_name_in_changes(web: Web) -> None:
    absent = web.ask("GET", "/policies/absent")
    assert (absent.status, absent.json) == (404, {"error": "Object Not Found", "reason": "Not Found"})
    changed = web.ask("PUT", "/policies/absent/p", {"pattern": "", "definition": {"expires": 5}})
    assert (changed.status, changed.json) == (404, {"error": "not_found", "reason": "no vhost 'absent'"})


@pytest.mark.parametrize(
    ("path", "body", "reason"),
    [
        ("/permissions/%2F/guest", {"configure": "", "write": ""}, "[{key_missing,read}]"),
        ("/permissions/%2F/guest", {"configure": "", "write": "", "read": None}, "'read' must be a string, not null"),
        (
            "/user-limits/guest/max-channels",
            {"value": "7"},
            "'value' must be a whole number, or a negative one for no limit, not '7'",
        ),
        ("/users/nobody", {"tags": "", "password_hash": None}, "'password_hash' must be a string, not null"),
        ("/parameters/policy/%2F/p", {"value": 1}, "the component policy has paths of its own: use those"),
    ],
)
def test_missing_or_invalid_field_is_400(web: Web, path: str, body: object, reason: str) -> None:
    answer = web.ask("PUT", path, body)
    assert answer.status == 400
    assert answer.reason.startswith(reason)


def test_keys_of_a_body_that_an_operation_does_not_have_are_passed_over(web: Web) -> None:
    name = some_name("policy")
    body = {"vhost": "elsewhere", "name": "other", "pattern": name, "definition": {"max-length": 5}, "operator": True}
    web.do("PUT", f"/policies/%2F/{name}", body, status=201)
    assert web.get(f"/policies/%2F/{name}")["vhost"] == "/"
    assert web.ask("GET", f"/operator-policies/%2F/{name}").status == 404
    web.do("DELETE", f"/policies/%2F/{name}")
