"""Operations with exactly their permissions, and without each of them: ours, and RabbitMQ's beside.

RabbitMQ 3.10 leaves out the kind of access in its texts, which RabbitMQ 4 and we name; codes are the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from pamqp import commands

from bench.brokers import RABBITMQ, start_rabbitmq
from bench.processes import free_port
from penstock.access.permission import ADMINISTRATOR, MANAGEMENT, MONITORING, POLICYMAKER
from tests.compat.conftest import BROKERS
from tests.server.http.test_login_authorization import MEASURED
from tests.support.access_matrix import NEW, Grants, cells, grants, octets_of, refusal_of, rows
from tests.support.access_needs import AMQP_0_9_1
from tests.support.brokers import eventually, serving
from tests.support.http_client import Web
from tests.support.raw_client import Peer, peer_of

NUMBERS = itertools.count(1)
PASSWORD = "x"
NOT_BEFORE_4 = {"write topic of each copy"}
"""Needs that RabbitMQ 3.10 does not know: it checks the routing key of a publish alone."""


class Side:
    """A broker with the objects of the table, whose users are changed over HTTP."""

    def __init__(self, at: tuple[str, int], web: Web, ours: bool) -> None:
        self.at = at
        self.web = web
        self.ours = ours
        for name, kind in (("x", "topic"), ("to", "fanout"), ("dead", "fanout"), ("alt", "fanout")):
            web.do("PUT", f"/exchanges/%2F/{name}", {"type": kind, "durable": False, "auto_delete": False}, 201)
        self.renew()

    def renew(self) -> None:
        """Make the objects anew that a row may have deleted or declared."""
        for path in ("/queues/%2F/new", "/exchanges/%2F/new"):
            self.web.ask("DELETE", path)
        self.web.ask("PUT", "/queues/%2F/q", {"durable": False, "auto_delete": False})
        self.web.ask("PUT", "/exchanges/%2F/x", {"type": "topic", "durable": False, "auto_delete": False})

    def user(self, tags: str = "") -> str:
        """Make a user."""
        name = f"user{next(NUMBERS)}"
        self.web.do("PUT", f"/users/{name}", {"password": PASSWORD, "tags": tags}, 201)
        return name

    def permit(self, user: str, given: Grants) -> None:
        """Give a user permissions in the virtual host /."""
        texts = {"configure": given.configure, "write": given.write, "read": given.read}
        assert self.web.ask("PUT", f"/permissions/%2F/{user}", texts).status in (201, 204)
        topics = {"exchange": "x", "write": given.topic_write or "^$", "read": given.topic_read or "^$"}
        assert self.web.ask("PUT", f"/topic-permissions/%2F/{user}", topics).status in (201, 204)

    def refusal(self, user: str, octets: bytes) -> tuple[int, str] | None:
        """Send octets on a channel of a user; return code and text of the refusal, None if there is none."""
        peer = Peer(self.at)
        try:
            peer.open(user=user, password=PASSWORD)
            peer.channel()
            peer.say(octets)
            peer.send(1, commands.Basic.Qos(prefetch_count=0))
            while True:
                kind, _, payload = peer.read_frame()
                if kind == 1 and payload[:4] == b"\0\x14\0\x28":  # channel.close
                    size = payload[6]
                    return int.from_bytes(payload[4:6], "big"), payload[7 : 7 + size].decode()
                if kind == 1 and payload[:4] == b"\0\x3c\0\x0b":  # basic.qos-ok
                    return None
        finally:
            peer.close()


@pytest.fixture(scope="module", params=BROKERS)
def side(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    """Ours, and RabbitMQ where it was asked for."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param != RABBITMQ:
        with serving(folder, "--http", "127.0.0.1:0") as process:
            yield Side((process.host, process.port), Web(process.http), True)
        return
    port = free_port()
    broker = start_rabbitmq(RABBITMQ, folder, port)
    try:
        web = Web(f"http://127.0.0.1:{port}")
        eventually(web.answers, "its HTTP API is there")
        yield Side(("127.0.0.1", broker.port), web, False)
    finally:
        broker.stop()


def test_operation_with_exactly_its_permissions_is_allowed(side: Side) -> None:
    user = side.user()
    for row in rows():
        side.renew()
        side.permit(user, grants(AMQP_0_9_1[row], NEW.get(row, "")))
        assert side.refusal(user, octets_of(row)) is None, row


def test_operation_without_one_of_its_permissions_is_refused(side: Side) -> None:
    user = side.user()
    for row, need in cells():
        if need in NOT_BEFORE_4 and not side.ours:
            continue
        side.renew()
        side.permit(user, grants([each for each in AMQP_0_9_1[row] if each != need], NEW.get(row, "")))
        text = refusal_of(row, need)
        expected = text if side.ours else text.partition(" ")[2]
        assert side.refusal(user, octets_of(row)) == (403, f"ACCESS_REFUSED - {expected} '{user}'"), (row, need)


def test_virtual_host_without_a_permission_is_530(side: Side) -> None:
    user = side.user()
    with peer_of(side.at) as peer:
        peer.log_in(user, PASSWORD)
        peer.expect(0, commands.Connection.Tune)
        peer.send(0, commands.Connection.TuneOk(2047, 131072, 0), commands.Connection.Open("/"))
        assert peer.refused(0) == (530, f"NOT_ALLOWED - access to vhost '/' refused for user '{user}'")


def test_change_of_a_permission_counts_at_once(side: Side) -> None:
    """A new channel asks again in RabbitMQ, whose channels remember what was permitted; here every message counts."""
    user = side.user()
    side.permit(user, grants(AMQP_0_9_1["basic.publish"]))
    assert side.refusal(user, octets_of("basic.publish")) is None
    side.permit(user, grants(["write topic"]))
    refusal = side.refusal(user, octets_of("basic.publish"))
    assert refusal[0] == 403


TAGS = ("", MANAGEMENT, POLICYMAKER, MONITORING, ADMINISTRATOR)
PARTS = {"vhost": "%2F", "user": "guest", "name": "q", "component": "federation"}


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("enters", [True, False])
def test_http_admits_the_users_that_rabbitmq_admits(side: Side, tag: str, enters: bool) -> None:
    """With each tag, with a permission in / and without one."""
    user = side.user(tag)
    if enters:
        side.permit(user, Grants("", "", "", "", ""))
    web = Web(f"http://{side.web.address}", user, PASSWORD)
    for (path, method), letters in MEASURED.items():
        if method == "GET":
            status = web.ask(method, path.format(**PARTS)).status
            admitted = letters.split(" ")[TAGS.index(tag)][0 if enters else 1] != "-"
            assert (status != 401) == admitted, (path, status)
