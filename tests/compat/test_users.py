"""Users, permissions and limits by RabbitMQ's HTTP paths: the same answers here and there.

With PENSTOCK_BESIDE=rabbitmq both are asked, otherwise ours alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pika
import pytest

from bench.brokers import RABBITMQ, start_rabbitmq
from bench.processes import free_port
from penstock.access.password_hash import rabbitmq_hash
from tests.support.brokers import PATIENCE, eventually, serving
from tests.support.http_client import Web

OURS = "penstock"
BROKERS = [OURS, *os.environ.get("PENSTOCK_BESIDE", "").split()]
EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}


class Side:
    """A broker with its HTTP API."""

    def __init__(self, port: int, web: Web) -> None:
        self.port = port
        self.web = web

    def connect(self, user: str, password: str = "secret", vhost: str = "/") -> pika.BlockingConnection:
        credentials = pika.PlainCredentials(user, password)
        return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.port, vhost, credentials))


@pytest.fixture(scope="module", params=BROKERS)
def side(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == OURS:
        with serving(folder, "--http", "127.0.0.1:0") as process:
            yield Side(process.port, Web(process.http))
        return
    http = free_port()
    broker = start_rabbitmq(RABBITMQ, folder, http)
    try:
        web = Web(f"http://127.0.0.1:{http}")
        eventually(lambda: web.answers(), "its management plugin answers", 60)
        yield Side(broker.port, web)
    finally:
        broker.stop()


@pytest.fixture
def anna(side: Side) -> Iterator[str]:
    side.web.do("PUT", "/users/anna", {"password": "secret", "tags": "management"}, 201)
    yield "anna"
    side.web.ask("DELETE", "/users/anna")


def test_user_is_shown_with_its_tags_and_limits(side: Side, anna: str) -> None:
    shown = side.web.get("/users/anna")
    assert (shown["name"], shown["tags"], shown["limits"]) == ("anna", ["management"], {})
    side.web.do("PUT", "/users/anna", {"password": "secret", "tags": "monitoring,other"}, 204)
    assert side.web.get("/users/anna")["tags"] == ["monitoring", "other"]
    assert {"password_hash", "hashing_algorithm"} <= side.web.get("/users/anna").keys()
    assert anna in [user["name"] for user in side.web.get("/users/without-permissions")]


def test_hash_of_a_password_is_taken(side: Side) -> None:
    given = rabbitmq_hash("secret", b"salt").text()
    side.web.do("PUT", "/users/hans", {"password_hash": given, "tags": []}, 201)
    side.web.do("PUT", "/permissions/%2F/hans", EVERYTHING, 201)
    side.connect("hans").close()
    side.web.do("POST", "/users/bulk-delete", {"users": ["hans"]})
    assert side.web.ask("GET", "/users/hans").status == 404


@pytest.mark.parametrize(
    "body", [{"password": "a"}, {"password": "a", "password_hash": "b", "tags": ""}, {"password_hash": "!", "tags": ""}]
)
def test_bad_user_is_refused(side: Side, body: dict[str, object]) -> None:
    assert side.web.ask("PUT", "/users/eve", body).status == 400


def test_permissions_are_set_shown_and_removed(side: Side, anna: str) -> None:
    path = f"/permissions/%2F/{anna}"
    side.web.do("PUT", path, EVERYTHING, 201)
    side.web.do("PUT", path, {**EVERYTHING, "read": "^x"}, 204)
    assert side.web.get(path) == {"user": anna, "vhost": "/", **EVERYTHING, "read": "^x"}
    assert side.web.get(f"/users/{anna}/permissions") == [side.web.get(path)]
    side.web.do("DELETE", path)
    assert side.web.ask("GET", path).status == 404
    assert side.web.ask("PUT", path, {**EVERYTHING, "read": "("}).status == 400
    assert side.web.ask("PUT", f"/permissions/none/{anna}", EVERYTHING).status in (400, 404)
    assert side.web.ask("PUT", "/permissions/%2F/nobody", EVERYTHING).status in (400, 404)


def test_topic_permissions_are_set_shown_and_removed(side: Side, anna: str) -> None:
    path = f"/topic-permissions/%2F/{anna}"
    side.web.do("PUT", path, {"exchange": "amq.topic", "write": "^a", "read": "^b"}, 201)
    found = {"user": anna, "vhost": "/", "exchange": "amq.topic", "write": "^a", "read": "^b"}
    assert side.web.get(path) == [found]
    assert found in side.web.get("/topic-permissions")
    side.web.do("DELETE", path)
    assert found not in side.web.get("/topic-permissions")


def test_limits_of_a_user_have_the_same_words(side: Side, anna: str) -> None:
    side.web.do("PUT", f"/permissions/%2F/{anna}", EVERYTHING, 201)
    side.web.do("PUT", f"/user-limits/{anna}/max-connections", {"value": 1})
    side.web.do("PUT", f"/user-limits/{anna}/max-channels", {"value": 1})
    (limits,) = side.web.get(f"/user-limits/{anna}")
    assert (limits["user"], limits["value"]) == (anna, {"max-connections": 1, "max-channels": 1})
    connection = side.connect(anna)
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError) as denied:
        side.connect(anna)
    said = str(denied.value).lower()
    assert f"connection refused for user '{anna}': user connection limit (1) is reached" in said
    assert "(530)" in said
    connection.channel()
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as refused:
        connection.channel()
    assert (refused.value.reply_code, refused.value.reply_text) == (
        530,
        f"NOT_ALLOWED - number of channels opened for user '{anna}' has reached the maximum allowed user limit of (1)",
    )
    side.web.do("DELETE", f"/user-limits/{anna}/max-connections")
    side.web.do("DELETE", f"/user-limits/{anna}/max-channels")


def test_limits_of_a_virtual_host_have_the_same_words(side: Side) -> None:
    side.web.do("PUT", "/vhosts/small", {}, 201)
    assert side.web.get("/permissions/small/guest")["read"] == ".*", "who creates it may use it"
    side.web.do("PUT", "/vhost-limits/small/max-connections", {"value": 1})
    side.web.do("PUT", "/vhost-limits/small/max-queues", {"value": 1})
    (limits,) = side.web.get("/vhost-limits/small")
    assert (limits["vhost"], limits["value"]) == ("small", {"max-connections": 1, "max-queues": 1})
    connection = side.connect("guest", "guest", "small")
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError) as denied:
        side.connect("guest", "guest", "small")
    said = "NOT_ALLOWED - access to vhost 'small' refused for user 'guest': connection limit (1) is reached"
    assert f'(530) "{said}"' in str(denied.value)
    channel = connection.channel()
    channel.queue_declare("one")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as too_many:
        channel.queue_declare("two")
    assert (too_many.value.reply_code, too_many.value.reply_text) == (
        406,
        "PRECONDITION_FAILED - cannot declare queue 'two': queue limit in vhost 'small' (1) is reached",
    )
    connection.close()
    side.web.do("DELETE", "/vhosts/small")


def test_deleted_user_loses_its_connections(side: Side, anna: str) -> None:
    side.web.do("PUT", f"/permissions/%2F/{anna}", EVERYTHING, 201)
    connection = side.connect(anna)
    side.web.do("DELETE", f"/users/{anna}")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        connection.sleep(PATIENCE)
    assert closed.value.reply_code == 320
    assert f"user '{anna}'" in closed.value.reply_text
    assert "deleted" in closed.value.reply_text


def test_lists_without_the_tag_monitoring_omit_other_users(side: Side, anna: str) -> None:
    web = Web(f"http://{side.web.address}", "anna", "secret")
    side.web.do("PUT", "/permissions/%2F/anna", EVERYTHING, 201)
    mine, others = side.connect("anna"), side.connect("guest", "guest")
    try:
        for connection, queue in ((mine, "of-anna"), (others, "of-guest")):
            channel = connection.channel()
            channel.queue_declare(queue, exclusive=True)
            channel.basic_consume(queue, lambda *_: None)

        def listed() -> bool:
            mine.process_data_events(0)
            others.process_data_events(0)
            return len(side.web.get("/consumers")) == 2 and len(side.web.get("/channels")) == 2

        eventually(listed, "RabbitMQ gathers what it tells every few seconds")
        for path in ("/consumers", "/consumers/%2F"):
            assert [each["queue"]["name"] for each in web.get(path)] == ["of-anna"]
        for path in ("/connections", "/channels", "/vhosts/%2F/connections", "/vhosts/%2F/channels"):
            assert [each["user"] for each in web.get(path)] == ["anna"]
    finally:
        mine.close()
        others.close()
