"""Permissions, topic permissions and limits in RabbitMQ's form, by its paths."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.brokers import BrokerProcess, some_name
from tests.support.http_client import Web
from tests.support.raw_channel import Connection


@pytest.fixture
def user(web: Web) -> Iterator[str]:
    name = some_name("user")
    web.do("PUT", f"/users/{name}", {"password_hash": "", "tags": ""}, 201)
    yield name
    web.do("DELETE", f"/users/{name}")


def test_topic_permissions_are_set_shown_and_removed(web: Web, user: str) -> None:
    path, texts = f"/topic-permissions/%2F/{user}", {"exchange": "amq.topic", "write": "^{username}", "read": ".*"}
    web.do("PUT", path, texts, 201)
    shown = {"user": user, "vhost": "/", **texts}
    assert web.get(path) == web.get(f"/users/{user}/topic-permissions") == [shown]
    assert shown in web.get("/topic-permissions")
    assert shown in web.get("/vhosts/%2F/topic-permissions")
    for one in (f"{path}?exchange=other", f"{path}/other"):
        web.do("PUT", path, {**texts, "exchange": "other"}, 201)
        assert web.get(f"{path}/other") == [{**shown, "exchange": "other"}]
        web.do("DELETE", one)
        assert web.ask("DELETE", one).status == 404
        assert web.get(path) == [shown]
    web.do("DELETE", path)
    assert web.ask("DELETE", path).status == 404
    assert web.ask("GET", path).status == 404
    assert web.get(f"/users/{user}/topic-permissions") == []


@pytest.mark.parametrize("kind", ["permissions", "topic-permissions"])
def test_permission_of_a_missing_user_or_virtual_host_is_a_bad_request(web: Web, user: str, kind: str) -> None:
    texts = {"exchange": "amq.topic", "configure": "", "write": "", "read": ""}
    for vhost, name, missing in (("nosuch", user, "vhost 'nosuch'"), ("%2F", "nobody", "user 'nobody'")):
        answer = web.ask("PUT", f"/{kind}/{vhost}/{name}", texts)
        assert (answer.status, answer.reason) == (400, f"no {missing}")


def test_limits_of_users_and_virtual_hosts(web: Web, user: str) -> None:
    web.do("PUT", f"/user-limits/{user}/max-connections", {"value": 3})
    shown = {"user": user, "value": {"max-connections": 3}, "penstock": {"used": {"max-connections": 0}}}
    assert web.get(f"/user-limits/{user}") == [shown]
    assert shown in web.get("/user-limits")
    assert web.get(f"/users/{user}")["limits"] == {"max-connections": 3}
    web.do("DELETE", f"/user-limits/{user}/max-connections")
    assert web.get(f"/user-limits/{user}") == []
    vhost = some_name("vhost")
    web.do("PUT", f"/vhosts/{vhost}", None, 201)
    web.do("PUT", f"/vhost-limits/{vhost}/max-queues", {"value": 7})
    shown = {"vhost": vhost, "value": {"max-queues": 7}, "penstock": {"used": {"max-queues": 0}}}
    assert web.get(f"/vhost-limits/{vhost}") == [shown]
    assert shown in web.get("/vhost-limits")
    web.do("DELETE", f"/vhost-limits/{vhost}/max-queues")
    assert web.get(f"/vhost-limits/{vhost}") == []
    web.do("DELETE", f"/vhosts/{vhost}")
    assert "unknown limit 'max-hats'" in web.ask("PUT", f"/user-limits/{user}/max-hats", {"value": 7}).reason
    assert web.ask("PUT", f"/user-limits/{user}/max-channels", {"value": "7"}).status == 400


def test_limits_of_a_virtual_host_are_shown_to_users_that_may_enter(web: Web) -> None:
    name, vhost = some_name("manager"), some_name("vhost")
    web.do("PUT", f"/users/{name}", {"password": "a long password", "tags": "management"}, 201)
    web.do("PUT", f"/vhosts/{vhost}", None, 201)
    web.do("PUT", f"/vhost-limits/{vhost}/max-queues", {"value": 7})
    limits = {"vhost": vhost, "value": {"max-queues": 7}}
    manager = Web(f"http://{web.address}", name, "a long password")
    assert limits not in manager.get("/vhost-limits")
    web.do("PUT", f"/permissions/{vhost}/{name}", {"configure": "", "write": "", "read": ""}, 201)
    assert limits in manager.get("/vhost-limits")
    web.do("DELETE", f"/permissions/{vhost}/{name}")
    web.do("PUT", f"/users/{name}", {"password": "a long password", "tags": "monitoring"})
    assert {**limits, "penstock": {"used": {"max-queues": 0}}} in manager.get("/vhost-limits")
    web.do("DELETE", f"/vhosts/{vhost}")
    web.do("DELETE", f"/users/{name}")


def test_use_of_limits_is_shown_to_permitted_users(served: BrokerProcess, web: Web) -> None:
    own, other, vhost = some_name("own"), some_name("other"), some_name("vhost")
    login = {"password": "a long password", "tags": "management"}
    web.do("PUT", f"/vhosts/{vhost}", None, 201)
    web.do("PUT", f"/queues/{vhost}/q", {}, 201)
    for name in (own, other):
        web.do("PUT", f"/users/{name}", login, 201)
        web.do("PUT", f"/permissions/{vhost}/{name}", {"configure": "", "write": "", "read": ""}, 201)
        for limit in ("max-connections", "max-channels"):
            web.do("PUT", f"/user-limits/{name}/{limit}", {"value": 5})
    for limit in ("max-connections", "max-queues"):
        web.do("PUT", f"/vhost-limits/{vhost}/{limit}", {"value": 5})
    with Connection(f"amqp://{own}:a%20long%20password@127.0.0.1:{served.port}/{vhost}") as connection:
        connection.channel()
        connection.channel()
        (mine,) = web.get(f"/user-limits/{own}")
        assert mine["penstock"]["used"] == {"max-connections": 1, "max-channels": 2}
        (theirs,) = web.get(f"/vhost-limits/{vhost}")
        assert theirs["penstock"]["used"] == {"max-connections": 1, "max-queues": 1}
        unseen = Web(served.http, own, "a long password")
        assert unseen.get(f"/user-limits/{own}") == [mine]
        assert "penstock" not in unseen.get(f"/user-limits/{other}")[0]
        assert "penstock" not in unseen.get(f"/vhost-limits/{vhost}")[0]
    for name in (own, other):
        web.do("DELETE", f"/users/{name}")
    web.do("DELETE", f"/vhosts/{vhost}")
