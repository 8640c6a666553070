"""Authorization of AMQP 1.0: each row of the table with all it needs, and without each of its needs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.access.operations import AMQP_1_0
from penstock.access.permission import Permission, TopicPermission
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite
from tests.support.access_matrix import grants
from tests.support.amqp10_dialogue import Amqp10Dialogue, Heard
from tests.support.amqp10_management import ManagementClient

Act = Callable[[Amqp10Dialogue], list[Heard]]
BINDING = {"source": "x", "destination_queue": "q", "binding_key": "k"}
REQUESTS: dict[str, tuple[str, str, object]] = {
    "GET /queues/:queue": ("GET", "/queues/q", None),
    "PUT /queues/:queue": ("PUT", "/queues/q", {"durable": False}),
    "PUT /queues/:queue, new with x-dead-letter-exchange": (
        "PUT", "/queues/new", {"arguments": {"x-dead-letter-exchange": "dead"}}
    ),
    "DELETE /queues/:queue": ("DELETE", "/queues/q", None),
    "DELETE /queues/:queue/messages": ("DELETE", "/queues/q/messages", None),
    "PUT /exchanges/:exchange": ("PUT", "/exchanges/x", {"type": "topic", "durable": False}),
    "PUT /exchanges/:exchange, new with alternate-exchange": (
        "PUT", "/exchanges/new", {"arguments": {"alternate-exchange": "alt"}}
    ),
    "DELETE /exchanges/:exchange": ("DELETE", "/exchanges/x", None),
    "POST /bindings": ("POST", "/bindings", BINDING),
    "DELETE /bindings/:binding": ("DELETE", "/bindings/src=x;dstq=q;key=k;args=", None),
}  # fmt: skip
LINKS: dict[str, Act] = {
    "attach, target /queues/:queue": lambda client: client.attach_sender("/queues/q"),
    "attach, target /exchanges/:exchange": lambda client: client.attach_sender("/exchanges/x"),
    "attach, target /exchanges/:exchange/:key": lambda client: client.attach_sender("/exchanges/x/k"),
    "attach, target null": lambda client: client.attach_sender(None),
    "attach, source /queues/:queue": lambda client: client.attach_receiver("/queues/q"),
}


def restricted(needs: list[str], new: str = "") -> Amqp10Dialogue:
    """Return a client of guest with these permissions and nothing more, and the objects of the table."""
    client = Amqp10Dialogue()
    client.declare("q")
    vhost = client.driver.broker.vhosts["/"]
    for name, kind in (("x", "topic"), ("dead", "fanout"), ("alt", "fanout")):
        vhost.declare_exchange(name, kind, {}, False, False, False)
    given, table = grants(needs, new), client.driver.broker.access
    table.set_permission("guest", "/", Permission(given.configure, given.write, given.read))
    table.set_topic_permission("guest", "/", "x", TopicPermission(given.topic_write, given.topic_read))
    return client


def cells(rows: dict[str, object]) -> list[tuple[str, str]]:
    return [(row, need) for row in rows for need in AMQP_1_0[row]]


def new_of(row: str) -> str:
    return "new" if ", new with" in row else ""


@pytest.mark.parametrize("row", LINKS)
def test_link_with_what_it_needs_is_attached(row: str) -> None:
    assert "detach" not in [each.name for each in LINKS[row](restricted(list(AMQP_1_0[row])))]


@pytest.mark.parametrize(("row", "need"), cells({**LINKS}))
def test_link_without_one_of_its_needs_is_detached(row: str, need: str) -> None:
    heard = LINKS[row](restricted([each for each in AMQP_1_0[row] if each != need]))
    (detached,) = [each for each in heard if each.name == "detach"]
    assert "amqp:unauthorized-access" in str(detached.field("error"))


@pytest.mark.parametrize("row", REQUESTS)
def test_request_with_what_it_needs_is_carried_out(row: str) -> None:
    response = ManagementClient(restricted(list(AMQP_1_0[row]), new_of(row))).ask(*REQUESTS[row])
    assert response.status in (200, 201, 204)


@pytest.mark.parametrize(("row", "need"), cells({**REQUESTS}))
def test_request_without_one_of_its_needs_is_403(row: str, need: str) -> None:
    client = restricted([each for each in AMQP_1_0[row] if each != need], new_of(row))
    response = ManagementClient(client).ask(*REQUESTS[row])
    assert response.status == 403
    assert f"{need.partition(' ')[0]} access to " in str(response.body)


@pytest.mark.parametrize("dynamic", ["attach, source dynamic", "attach, target dynamic"])
def test_dynamic_nodes_need_to_be_declared_and_used(dynamic: str) -> None:
    for permission, attached in (
        (Permission("^amq[.]dyn", "^amq[.]default$", "^amq[.]dyn"), True),
        (Permission("", ".*", ".*"), False),
        (Permission(".*", "", ""), False),
    ):
        client = Amqp10Dialogue()
        client.driver.broker.access.set_permission("guest", "/", permission)
        if "source" in dynamic:
            heard = client.attach_receiver(None, source=composite(spec.SOURCE, dynamic=True))
        else:
            heard = client.attach_sender(None, target=composite(spec.TARGET, dynamic=True))
        assert ("detach" not in [each.name for each in heard]) == attached


def test_change_of_a_permission_counts_with_the_next_transfer() -> None:
    client = restricted(["write default exchange"])
    client.attach_sender("/queues/q")
    assert "rejected" not in str(client.say(client.transfer(b"\0Su\xa0\x01m")))
    assert client.depth("q") == 1
    client.driver.broker.access.set_permission("guest", "/", Permission("", "", ""))
    client.say(client.transfer(b"\0Su\xa0\x01m"))
    assert client.depth("q") == 1
