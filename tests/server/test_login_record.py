"""Record of a login: packets, and each field of a login on its way from one broker to another."""

from __future__ import annotations

import dataclasses
import json
from math import inf

import pytest

from penstock.access.back_end import ServedRules
from penstock.access.permission import Permission
from penstock.access.rules import ConnectionAccess, Rules
from penstock.access.tokens import TokenRules
from penstock.connections.connection import Connection
from penstock.connections.connection_state import ConnectionState
from penstock.connections.peer import Peer, TlsSession
from penstock.driver.driver import BrokerDriver
from penstock.server.login_record import HEAD, PACKET_OCTETS_MOST, READERS, LoginRecord, RecordError
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from penstock.wire.sasl import plain_response
from tests.support.driven_connection import make_driver
from tests.support.finished_logins import LOST, OPENING, SERVED, SHOWN, TOKEN, served

FIELDS = [field.name for field in dataclasses.fields(LoginRecord)]


def altered(packet: bytes, **values: object) -> bytes:
    """Return a packet with other values of fields, which may be new; "(removed)" removes a field."""
    end = HEAD + int.from_bytes(packet[1:HEAD], "big")
    fields = json.loads(packet[HEAD:end])
    fields.update(values)
    body = json.dumps({name: value for name, value in fields.items() if value != "(removed)"}).encode()
    return packet[:1] + len(body).to_bytes(HEAD - 1, "big") + body + packet[end:]


@pytest.mark.parametrize("record", [TOKEN, SERVED], ids=["token", "served"])
def test_record_is_read_as_it_was_written(record: LoginRecord) -> None:
    assert LoginRecord.of(record.packet()) == record


@pytest.mark.parametrize("name", FIELDS)
def test_field_that_is_lost_is_noticed(name: str) -> None:
    changed = []
    for record in (TOKEN, SERVED):
        whole = SHOWN[name](served(make_driver(), record))
        lost = dataclasses.replace(record, **{name: LOST[name]})
        changed.append(SHOWN[name](served(make_driver(), lost)) != whole)
    assert any(changed)


def test_fields_have_readers_and_are_shown_by_connections() -> None:
    assert [*READERS, "rest"] == FIELDS == list(SHOWN) == list(LOST)


@pytest.mark.parametrize("name", list(READERS))
def test_record_without_a_field_or_with_another_type_is_refused(name: str) -> None:
    with pytest.raises(RecordError, match="has other fields than this version"):
        LoginRecord.of(altered(TOKEN.packet(), **{name: "(removed)"}))
    with pytest.raises(RecordError, match=f"field {name} of a login's record has another type"):
        LoginRecord.of(altered(TOKEN.packet(), **{name: {"a": [1]}}))


@pytest.mark.parametrize(
    ("packet", "sentence"),
    [
        (b"", "version none; this process reads version 1"),
        (b"\x02" + TOKEN.packet()[1:], "version 2; this process reads version 1"),
        (TOKEN.packet()[:3], "ends after 3 of "),
        (TOKEN.packet()[:40], "ends after 40 of "),
        (b"\x01\x00\x00\x00\x02[]rest", "other fields than this version"),
        (b"\x01\x00\x00\x00\x02{}rest", "other fields than this version"),
        (b"\x01\x00\x00\x00\x03{,}", "are no JSON"),
        (b"\x01\x00\x00\x00\x02\xff\xff", "are no JSON"),
        (altered(TOKEN.packet(), more=1), "other fields than this version"),
        (altered(TOKEN.packet(), rates=[1, 2, 3]), "field rates of a login's record has another type"),
        (altered(TOKEN.packet(), rates=[1, -2, 3, 4, 5]), "field rates of a login's record has another type"),
        (altered(TOKEN.packet(), expires_at=inf), "field expires_at of a login's record has another type"),
        (altered(TOKEN.packet(), heartbeat_s=1 << 32), "field heartbeat_s of a login's record has another type"),
        (altered(TOKEN.packet(), tls=["TLSv1.3"]), "field tls of a login's record has another type"),
        (altered(TOKEN.packet(), served_permission=["", ""]), "field served_permission of a login's record has"),
        (bytes(PACKET_OCTETS_MOST + 1), f"has {PACKET_OCTETS_MOST + 1} bytes; the most is {PACKET_OCTETS_MOST}"),
    ],
)
def test_invalid_packet_is_refused_with_a_sentence(packet: bytes, sentence: str) -> None:
    with pytest.raises(RecordError, match=sentence):
        LoginRecord.of(packet)


def test_record_with_too_many_bytes_is_not_written() -> None:
    with pytest.raises(RecordError, match=f"the most is {PACKET_OCTETS_MOST}"):
        dataclasses.replace(TOKEN, rest=bytes(PACKET_OCTETS_MOST)).packet()


def test_rest_may_have_any_bytes_and_texts_any_characters() -> None:
    odd = dataclasses.replace(TOKEN, rest=bytes(range(256)), user="\u00e4\udc80\n")
    assert LoginRecord.of(odd.packet()) == odd


# Logins of a whole driver


def logged_in(driver: BrokerDriver, peer: Peer, capabilities: bool = True) -> Connection:
    """Return a connection of AMQP 0-9-1 in the state OPEN."""
    connection = driver.connect(peer)
    properties: dict[str, object] = {
        "product": "RabbitMQ",
        "platform": "Java",
        "version": "5",
        "connection_name": "web-1",
        "penstock_query": "totals",
        "rate-messages": 5,
        "secret": "not stored",
    }
    if capabilities:
        properties["capabilities"] = {"channel.flow": True, "basic.nack": False, "unknown": True}
    connection.receive(b"AMQP\x00\x00\x09\x01")
    login = plain_response("guest", "guest")
    connection.receive(
        method_frame(0, spec.CONNECTION_START_OK, client_properties=properties, mechanism="PLAIN", response=login)
    )
    connection.receive(method_frame(0, spec.CONNECTION_TUNE_OK, channel_max=9, frame_max=8192, heartbeat=13))
    assert connection.state is ConnectionState.OPEN
    return connection


def described(connection: Connection) -> LoginRecord:
    record = LoginRecord.describe(connection, "AMQP 0-9-1", OPENING)
    return LoginRecord.of(record.packet())


@pytest.mark.parametrize("capabilities", [False, True])
def test_record_describes_a_login_so_that_another_broker_shows_the_same(capabilities: bool) -> None:
    peer = Peer("10.0.0.7:40312", True, "10.0.0.1:5672")
    session = TlsSession("TLSv1.2", "ECDHE-RSA-AES256-GCM-SHA384")
    session.user, session.subject, session.issuer, session.validity = "anna", "CN=anna", "CN=issuer", "2026 2027"
    peer.secure(session)
    first = logged_in(make_driver(), peer, capabilities)
    second = served(make_driver(), described(first))
    first.receive(OPENING)
    assert second.state is ConnectionState.RUNNING
    for name, shown in SHOWN.items():
        assert shown(second) == shown(first), name
    assert second.peer.rates is not None
    assert "secret" not in second.peer.properties
    assert ("capabilities" in second.peer.properties) is capabilities


@pytest.mark.parametrize(
    "rules",
    [
        TokenRules(["read:*/a%2Fb", "write:%2f/*+*%25*/k%C3%A9*", "configure:v/%FF", "read:%FF/x", "tag:monitoring"]),
        TokenRules([]),
    ],
)
def test_record_of_a_token_grants_and_refuses_the_same(rules: TokenRules) -> None:
    connection = logged_in(make_driver(), Peer("127.0.0.1:1", True))
    connection.access = ConnectionAccess(rules, "guest", "")
    connection.login.expire(connection, 2e9)
    second = served(make_driver(), described(connection))
    asked = [
        [each.enters(vhost), each.permits(kind, vhost, name), each.permits_topic(kind, vhost, name, key), each.tags()]
        for each in (rules, second.access.rules)
        for kind in ("read", "write", "configure")
        for vhost in ("/", "v", "%FF")
        for name in ("a/b", "a%2Fb", "1 2%3", "1+2%3", "x", "%FF")
        for key in ("k\u00e9x", "other")
    ]
    assert asked[: len(asked) // 2] == asked[len(asked) // 2 :]
    assert second.login.expires_at() == 2e9


def test_record_of_a_back_end_user_grants_the_same() -> None:
    driver = make_driver()
    connection = logged_in(driver, Peer("127.0.0.1:1", True))
    permission = Permission("^{username}", ".*", "")
    rules: Rules = ServedRules("guest", ["/"], ["management"], permission, driver.broker.access.expressions)
    connection.access = ConnectionAccess(rules, "guest", "")
    second = served(make_driver(), described(connection)).access.rules
    for name in ("guest1", "other"):
        for kind in ("read", "write", "configure"):
            assert second.permits(kind, "/", name) == rules.permits(kind, "/", name)
    assert (second.enters("/"), second.enters("other"), second.tags()) == (True, False, ["management"])


def test_record_of_a_user_is_checked_by_the_table_of_the_serving_broker() -> None:
    first = logged_in(make_driver(), Peer("127.0.0.1:1", True))
    driver = make_driver()
    assert driver.broker.access.clear_permission("guest", "/")
    second = served(driver, described(first))
    assert second.state is ConnectionState.CLOSE_SENT
    assert second.vhost is None
