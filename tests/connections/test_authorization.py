"""Authorization of AMQP 0-9-1: each row of the table with all its permissions, and without each of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.access.password_hash import file_password
from penstock.access.permission import Permission, TopicPermission
from penstock.access.user import User
from penstock.connections.authorization import NO_ACCESS
from penstock.connections.peer import Peer
from penstock.content.properties import Properties
from penstock.driver.driver import BrokerDriver
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from penstock.wire.sasl import plain_response
from tests.profiles import examples
from tests.support.access_matrix import NEW, Grants, cells, grants, octets_of, refusal_of, rows
from tests.support.access_needs import AMQP_0_9_1
from tests.support.amqp091_frames import close_reasons
from tests.support.driven_connection import Dialogue, cut, make_driver, output_of, publish, refused
from tests.support.granted_access import restrict

NONE = Permission("", "", "")


@pytest.fixture
def driver() -> BrokerDriver:
    """A driver with the objects of the table."""
    driver = make_driver()
    owner = Dialogue(driver).declare("q")
    for name, kind in (("x", "topic"), ("to", "fanout"), ("dead", "fanout"), ("alt", "fanout")):
        declared = owner.names(method_frame(1, spec.EXCHANGE_DECLARE, exchange=name, type=kind))
        assert declared == ["exchange.declare-ok"]
    return driver


@pytest.mark.parametrize("row", rows())
def test_operation_with_exactly_the_needed_permissions_is_allowed(driver: BrokerDriver, row: str) -> None:
    client = Dialogue(driver)
    restrict(driver, grants(AMQP_0_9_1[row], NEW.get(row, "")))
    assert close_reasons(client.say(octets_of(row))) == []


@pytest.mark.parametrize(("row", "need"), cells())
def test_operation_without_a_needed_permission_is_refused_with_403(driver: BrokerDriver, row: str, need: str) -> None:
    client = Dialogue(driver)
    restrict(driver, grants([each for each in AMQP_0_9_1[row] if each != need], NEW.get(row, "")))
    assert close_reasons(client.say(octets_of(row))) == [(403, f"ACCESS_REFUSED - {refusal_of(row, need)} 'guest'")]


def test_virtual_host_without_a_permission_is_530(driver: BrokerDriver) -> None:
    table = driver.broker.access
    table.set_permission("guest", "/", NONE)  # An empty permission is one.
    table.put_user("stranger", None, [])
    assert open_vhost(driver, "guest") == []
    assert open_vhost(driver, "stranger") == [(530, "NOT_ALLOWED - access to vhost '/' refused for user 'stranger'")]


def open_vhost(driver: BrokerDriver, user: str) -> list[tuple[int, str]]:
    """Open the virtual host / for a user; return code and text of a refusal."""
    connection = driver.connect(Peer("127.0.0.1:1", True))
    response = plain_response("guest", "guest")
    start = method_frame(0, spec.CONNECTION_START_OK, mechanism="PLAIN", response=response)
    connection.receive(b"AMQP\x00\x00\x09\x01")
    connection.receive(start + method_frame(0, spec.CONNECTION_TUNE_OK, channel_max=100, frame_max=4096, heartbeat=0))
    connection.user = user
    connection.access = NO_ACCESS
    connection.take_output()
    connection.receive(method_frame(0, spec.CONNECTION_OPEN, virtual_host="/"))
    return close_reasons(cut(output_of(connection)))


def test_access_without_rules_permits_no_operation() -> None:
    rules = NO_ACCESS.rules
    assert not rules.enters("/")
    assert not rules.permits("read", "/", "q")
    assert not rules.permits_topic("read", "/", "x", "k")
    assert rules.tags() == []
    assert rules.epoch.count == 0


def test_equal_declaration_of_a_queue_needs_no_rights_on_the_dead_letter_exchange(driver: BrokerDriver) -> None:
    declaration = octets_of("queue.declare, new with x-dead-letter-exchange")
    assert close_reasons(Dialogue(driver).say(declaration)) == []
    restrict(driver, Grants("^new$", "", "", "", ""))
    assert close_reasons(Dialogue(driver).say(declaration)) == []


def test_default_exchange_is_amq_default_in_permissions(driver: BrokerDriver) -> None:
    client = Dialogue(driver)
    restrict(driver, Grants("", "^amq[.]default$", "", "", ""))
    assert client.say(publish("q", b"m")) == []
    restrict(driver, Grants("", "^q$", "", "", ""))
    name, code, text = refused(client, publish("q", b"m"))
    assert (name, code) == ("channel.close", 403)
    assert text == "ACCESS_REFUSED - write access to exchange 'amq.default' in vhost '/' refused for user 'guest'"


@pytest.mark.parametrize("name", ["dead-letter-exchange", "x-dead-letter-exchange"])
def test_dead_letter_exchange_by_each_name_needs_write_access(driver: BrokerDriver, name: str) -> None:
    restrict(driver, Grants(".*", "^x$", ".*", "", ""))
    declaration = method_frame(1, spec.QUEUE_DECLARE, queue="new", arguments={name: "dead"})
    assert refused(Dialogue(driver), declaration)[1] == 403
    assert "new" not in driver.broker.vhosts["/"].queues


@pytest.mark.parametrize("name", ["dead-letter-exchange", "x-dead-letter-exchange"])
def test_dead_letters_of_a_queue_for_answers_need_the_permission_of_a_publish(driver: BrokerDriver, name: str) -> None:
    """Otherwise whoever may log in could publish anywhere: an answer that expires goes to any exchange."""
    restrict(driver, Grants("", "", "", "", ""))
    declaration = {"queue": "amq.penstock.replies", "exclusive": True}
    frame = method_frame(1, spec.QUEUE_DECLARE, **declaration, arguments={name: "dead", "x-message-ttl": 1})
    assert refused(Dialogue(driver), frame)[1] == 403
    assert list(driver.broker.vhosts["/"].queues) == ["q"]
    assert close_reasons(Dialogue(driver).say(method_frame(1, spec.QUEUE_DECLARE, **declaration))) == []
    restrict(driver, Grants("", "^dead$", "^amq[.]penstock[.]replies$", "", ""))
    assert close_reasons(Dialogue(driver).say(frame)) == []


def test_large_and_split_publishes_are_refused_too(driver: BrokerDriver) -> None:
    client = Dialogue(driver, frame_max=4096)
    restrict(driver, Grants("", "^x$", "", "", ""))
    frames = publish("q", b"m" * 10_000, frame_max=4096)
    found = [*client.say(frames[:40]), *client.say(frames[40:])]
    assert close_reasons(found)[0][0] == 403
    assert driver.broker.vhosts["/"].queues["q"].messages == 0


def test_publish_that_arrives_while_permission_is_revoked_is_refused(driver: BrokerDriver) -> None:
    client = Dialogue(driver)
    frames = publish("q", b"m")
    assert client.say(frames[:-3]) == []
    restrict(driver, Grants("", "", "", "", ""))
    assert close_reasons(client.say(frames[-3:]))[0][0] == 403


def test_topic_keys_are_checked_on_routes_from_before_the_exchange_was_a_topic(driver: BrokerDriver) -> None:
    vhost = driver.broker.vhosts["/"]
    client = Dialogue(driver)
    for kind, codes in (("fanout", []), ("topic", [403])):
        if "x" in vhost.exchanges:
            vhost.delete_exchange("x", False)
        vhost.declare_exchange("x", kind, {}, False, False, False)
        if kind == "fanout":
            restrict(driver, Grants("", "^x$", "", "^open$", ""))
        assert [code for code, _ in close_reasons(client.say(publish("hidden", b"m", exchange="x") * 2))] == codes


def test_messages_of_held_connections_are_checked_on_arrival(driver: BrokerDriver) -> None:
    client = Dialogue(driver)
    assert client.say(publish("q", b"m") * 3) == []
    restrict(driver, Grants("", "", "", "", ""))
    assert close_reasons(client.say(publish("q", b"m") * 3))[0][0] == 403
    assert driver.broker.vhosts["/"].queues["q"].messages == 3


CHANGES = st.lists(
    st.sampled_from(["write nothing", "write all", "publish", "publish other", "declare", "consume", "topic", "bind"]),
    max_size=30,
)


@settings(max_examples=examples(200))
@given(CHANGES)
def test_cached_decision_never_outlives_a_change_of_permission(changes: list[str]) -> None:
    """Any mix of publishes, which are cached, with changes of permissions and of the topology, which refresh routes."""
    driver = make_driver()
    owner = Dialogue(driver).declare("q")
    owner.names(method_frame(1, spec.EXCHANGE_DECLARE, exchange="x", type="topic"))
    owner.names(method_frame(1, spec.QUEUE_BIND, queue="q", exchange="x", routing_key="#"))
    table = driver.broker.access
    table.set_file_users([_user("guest")])
    client = Dialogue(driver)
    queue = driver.broker.vhosts["/"].queues["q"]
    permitted, topics, came, number = True, True, 0, 0
    for change in changes:
        if change.startswith("write"):
            permitted = change == "write all"
            table.set_file_users([_user("guest", ".*" if permitted else "", topics)])
        elif change == "topic":
            topics = not topics
            table.set_file_users([_user("guest", ".*" if permitted else "", topics)])
        elif change == "declare":
            number += 1
            driver.broker.vhosts["/"].declare_queue(f"other{number}", {}, False, False, None, None)
        elif change == "bind":
            vhost = driver.broker.vhosts["/"]
            number += 1
            vhost.bind("x", queue, None, f"key{number}", {})
        elif change == "consume":
            queue.purge(driver.broker.now)
            came = 0
        else:
            exchange = "x" if change == "publish other" else ""
            found = close_reasons(client.say(publish("q", b"m", exchange=exchange)))
            allowed = permitted and (topics or not exchange)
            assert (not found) == allowed, (change, found)
            came += allowed
            assert queue.messages == came
            if found:
                client = Dialogue(driver)


def _user(name: str, write: str = ".*", topics: bool = True) -> User:
    user = User(name, file_password("guest"), ["administrator"])
    user.permissions["/"] = Permission(".*", write, ".*")
    user.topic_permissions["/"] = {"x": TopicPermission(".*" if topics else "", ".*")}
    return user


def test_copies_need_permission_for_their_topics(driver: BrokerDriver) -> None:
    client = Dialogue(driver)
    restrict(driver, Grants("", ".*", "", "^k$", ""))
    properties = Properties(headers={"CC": ["k"]})
    assert client.say(publish("k", b"m", exchange="x", properties=properties)) == []
    properties = Properties(headers={"CC": ["k", "other"]})
    assert refused(client, publish("k", b"m", exchange="x", properties=properties))[1] == 403


@pytest.mark.parametrize(("write", "arrives"), [("", False), ("^amq[.]default$", True)])
def test_answers_to_direct_replies_of_other_users_need_the_permission_of_a_publish(
    driver: BrokerDriver, write: str, arrives: bool
) -> None:
    waiting, asking = Dialogue(driver), Dialogue(driver)
    waiting.say(method_frame(1, spec.BASIC_CONSUME, queue="amq.rabbitmq.reply-to", no_ack=True))
    [address] = driver.broker.vhosts["/"].replies
    restrict(driver, Grants("", write, "", "", ""))
    request = publish("cursor.queues", b"{}", properties=Properties(reply_to=address), exchange="penstock.control")
    asking.say(request)
    assert bool(waiting.say(b"")) is arrives
    assert waiting.say(request) != [], "its own need nothing"
