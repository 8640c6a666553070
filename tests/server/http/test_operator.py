"""Operations of an operator over HTTP: blocks, and settings with a preview."""

from __future__ import annotations

from tests.support.brokers import some_name
from tests.support.http_client import Web


def test_queue_is_blocked_until_it_is_unblocked(web: Web) -> None:
    queue = some_name("stopped")
    web.declare(queue)
    answer = web.do("POST", "/penstock/block", {"queue": queue, "reason": "audit"}, status=200)
    assert answer.json["reason"] == "audit"
    assert any("the operator, who holds" in line for line in web.get(f"/penstock/why?queue={queue}")["sentences"])
    web.do("POST", "/penstock/unblock", {"queue": queue}, status=200)
    assert web.ask("POST", "/penstock/unblock", {"queue": queue}).status == 404


def test_settings_are_previewed_set_shown_with_their_source_and_unset(web: Web) -> None:
    queue = some_name("limited")
    web.declare(queue)
    wanted = {"capacity-messages": 50}
    found = web.do("POST", "/penstock/settings/preview", {"queue": queue, "settings": wanted}, status=200).json
    assert found["after"]["capacity"]["messages"] == 50
    assert web.queue(queue)["penstock"]["capacity"]["messages"] is None
    web.do("PUT", "/penstock/settings", {"scope": "queue", "pattern": queue, "settings": wanted}, status=200)
    assert web.queue(queue)["penstock"]["capacity"]["messages"] == 50
    (row,) = [
        each
        for each in web.get(f"/penstock/settings?scope=queue&name={queue}")["settings"]
        if each["setting"] == "capacity-messages"
    ]
    assert (row["value"], "set by command" in row["from"]) == (50, True)
    listed = [each for each in web.get("/penstock/settings")["settings"] if each["pattern"] == queue]
    assert [each["command"] for each in listed] == [{"capacity-messages": "50"}]
    web.do("DELETE", "/penstock/settings", {"scope": "queue", "pattern": queue, "names": None}, status=200)
    assert queue not in [each["pattern"] for each in web.get("/penstock/settings")["settings"]]


def test_override_is_set_and_shown_with_the_source_that_it_hides(web: Web) -> None:
    queue = some_name("declared")
    web.declare(queue, capacity_messages=10)
    wanted = {"scope": "queue", "pattern": queue, "settings": {"capacity-messages": 50}}
    (warning,) = web.do("PUT", "/penstock/settings", wanted, status=200).json["warnings"]
    assert "argument capacity-messages=10 is stronger" in warning
    preview = {"queue": queue, "settings": {"capacity-messages": 50}}
    for more, capacity in (({}, 10), ({"override": True}, 50)):
        found = web.do("POST", "/penstock/settings/preview", {**preview, **more}, status=200).json
        assert found["after"]["capacity"]["messages"] == capacity
        assert len(found["without_effect"]) == (0 if more else 1)
    assert web.do("PUT", "/penstock/settings", {**wanted, "override": True}, status=200).json["warnings"] == []
    rows = web.get(f"/penstock/settings?scope=queue&name={queue}")["settings"]
    row = next(each for each in rows if each["setting"] == "capacity-messages")
    assert (row["value"], row["by"]) == (50, "override")
    assert row["hides"] == [{"value": "10", "from": "argument capacity-messages=10"}]
    listed = [each for each in web.get("/penstock/settings")["settings"] if each["pattern"] == queue]
    assert [(each["command"], each["override"]) for each in listed] == [({}, {"capacity-messages": "50"})]
    web.do("DELETE", "/penstock/settings", {"scope": "queue", "pattern": queue, "names": None}, status=200)


def test_operator_needs_the_tag_policymaker(web: Web) -> None:
    name = some_name("manager")
    web.do("PUT", f"/users/{name}", {"password": "a long password", "tags": "management"}, status=201)
    web.do("PUT", f"/permissions/%2F/{name}", {"configure": ".*", "write": ".*", "read": ".*"}, status=201)
    other = Web(f"http://{web.address}", name, "a long password")
    assert other.ask("GET", "/penstock/settings").status == 200
    for method, path in (("POST", "block"), ("POST", "unblock"), ("PUT", "settings"), ("POST", "settings/preview")):
        assert other.ask(method, f"/penstock/{path}", {"queue": "q"}).status == 401
    web.do("DELETE", f"/users/{name}")
