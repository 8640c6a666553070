"""Authorization of AMQP 1.0: each row of the table with all its permissions, and without each of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.access.permission import Permission, TopicPermission
from penstock.protocols.amqp10.addresses import AddressKind
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite, encode
from tests.support.access_matrix import grants
from tests.support.access_needs import AMQP_1_0
from tests.support.amqp10_dialogue import Amqp10Dialogue, Heard, data_section
from tests.support.amqp10_management import ManagementClient
from tests.support.granted_access import restrict

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
    "GET /bindings": ("GET", "/bindings?src=x&dstq=q&key=k", None),
    "DELETE /bindings/:binding": ("DELETE", "/bindings/src=x;dstq=q;key=k;args=", None),
    "PUT /auth/tokens": ("PUT", "/auth/tokens", b"token"),
}  # fmt: skip
LINKS: dict[str, Act] = {
    "attach, target /queues/:queue": lambda client: client.attach_sender("/queues/q"),
    "attach, target /exchanges/:exchange": lambda client: client.attach_sender("/exchanges/x"),
    "attach, target /exchanges/:exchange/:key": lambda client: client.attach_sender("/exchanges/x/k"),
    "attach, target null": lambda client: client.attach_sender(None),
    "attach, target /management": lambda client: ManagementClient(client).attached[:1],
    "attach, target coordinator": lambda client: client.attach_sender(None, target=composite(spec.COORDINATOR)),
    "attach, source /management": lambda client: ManagementClient(client).attached[1:],
    "attach, source /queues/:queue": lambda client: client.attach_receiver("/queues/q"),
}

TRANSFERS: dict[str, tuple[str | None, dict[str, str]]] = {
    "transfer, target /exchanges/:exchange": ("/exchanges/x", {"subject": "k"}),
    "transfer, target null": (None, {"to": "/exchanges/x/k"}),
}
"""Address of the target, and properties of the message."""
DYNAMIC = ("attach, source dynamic", "attach, target dynamic")
SUBSCRIPTIONS = ("attach, source /exchanges/:exchange", "attach, source null")
OPEN = ("open",)


def restricted(needs: list[str], new: str = "") -> Amqp10Dialogue:
    """Return a client of guest with these permissions and nothing more, and the objects of the table."""
    client = Amqp10Dialogue().declare("q")
    vhost = client.vhost
    for name, kind in (("x", "topic"), ("dead", "fanout"), ("alt", "fanout")):
        vhost.declare_exchange(name, kind, {}, False, False, False)
    restrict(client.driver, grants(needs, new))
    return client


def cells(rows: dict[str, object]) -> list[tuple[str, str]]:
    return [(row, need) for row in rows for need in AMQP_1_0[row]]


@pytest.mark.parametrize("row", LINKS)
def test_link_with_the_needed_permissions_is_attached(row: str) -> None:
    assert "detach" not in [each.name for each in LINKS[row](restricted(list(AMQP_1_0[row])))]


@pytest.mark.parametrize(("row", "need"), cells({**LINKS}))
def test_link_without_a_needed_permission_is_detached(row: str, need: str) -> None:
    heard = LINKS[row](restricted([each for each in AMQP_1_0[row] if each != need]))
    (detached,) = [each for each in heard if each.name == "detach"]
    assert "amqp:unauthorized-access" in str(detached.field("error"))


@pytest.mark.parametrize("row", REQUESTS)
def test_request_with_the_needed_permissions_is_carried_out(row: str) -> None:
    client = restricted(list(AMQP_1_0[row]), "new" if ", new with" in row else "")
    response = ManagementClient(client).ask(*REQUESTS[row])
    assert response.status in (200, 201, 204)


@pytest.mark.parametrize(("row", "need"), cells({**REQUESTS}))
def test_request_without_a_needed_permission_is_403(row: str, need: str) -> None:
    client = restricted([each for each in AMQP_1_0[row] if each != need], "new" if ", new with" in row else "")
    response = ManagementClient(client).ask(*REQUESTS[row])
    assert response.status == 403
    assert f"{need.partition(' ')[0]} access to " in str(response.body)


def test_rows_of_the_access_table_are_all_tried() -> None:
    assert sorted([*LINKS, *REQUESTS, *TRANSFERS, *DYNAMIC, *SUBSCRIPTIONS, *OPEN]) == sorted(AMQP_1_0)


def test_rows_of_requests_are_the_methods_that_the_management_node_has() -> None:
    client = ManagementClient(restricted([]))
    paths: dict[str, set[str]] = {}
    for row, (method, path, _) in REQUESTS.items():
        paths.setdefault(path.partition("?")[0], set()).add(method)
        assert row.startswith(method)
    paths["/queues/q"] |= paths.pop("/queues/new")
    paths["/exchanges/x"] |= paths.pop("/exchanges/new")
    for path, methods in paths.items():
        response = client.ask("PATCH", path)
        assert response.status == 405
        assert set(response.body.partition("it has ")[2].split(", ")) == methods, path
    unknown = client.ask("GET", "/nowhere")
    assert unknown.status == 404
    named = unknown.body.partition("there are ")[2].replace(" and ", ", ").split(", ")
    assert {each.split("/")[1] for each in named} == {path.split("/")[1] for path in paths}


def test_rows_of_links_are_the_kinds_of_addresses() -> None:
    words = {
        AddressKind.QUEUE: "/queues/:queue", AddressKind.EXCHANGE: "/exchanges/:exchange", AddressKind.PLAIN: "",
        AddressKind.ANONYMOUS: "null", AddressKind.MANAGEMENT: "/management",
    }  # fmt: skip
    assert set(words) == set(AddressKind)
    for kind, word in words.items():
        assert kind is AddressKind.PLAIN or f"attach, target {word}" in AMQP_1_0
        assert kind is AddressKind.PLAIN or f"attach, source {word}" in AMQP_1_0


def transferred(row: str, needs: list[str]) -> str:
    """Attach a link that may do everything, take all but these permissions away, and return what a transfer gets."""
    address, properties = TRANSFERS[row]
    client = restricted(list(AMQP_1_0[row]))
    client.attach_sender(address)
    restrict(client.driver, grants(needs))
    return str(client.say(client.transfer(encode(spec.PROPERTIES, **properties) + data_section(b"m"))))


@pytest.mark.parametrize("row", TRANSFERS)
def test_transfer_with_the_needed_permissions_is_accepted(row: str) -> None:
    assert "unauthorized" not in transferred(row, list(AMQP_1_0[row]))


@pytest.mark.parametrize(("row", "need"), cells({**TRANSFERS}))
def test_transfer_without_a_needed_permission_is_rejected(row: str, need: str) -> None:
    assert "amqp:unauthorized-access" in transferred(row, [each for each in AMQP_1_0[row] if each != need])


def subscribed(row: str, needs: list[str]) -> list[str]:
    """Return what a receiver gets that subscribes to exchange `x`, or finds its subscription by a null source."""
    client = restricted(["configure queue"])
    table = client.driver.broker.access
    source = None
    if row.endswith("null"):
        table.set_permission("guest", "/", Permission(".*", ".*", ".*"))
        table.set_topic_permission("guest", "/", "x", TopicPermission(".*", ".*"))
        lasting = composite(
            spec.SOURCE, address="/exchanges/x/k", capabilities=["topic"], durable=2, expiry_policy="never"
        )
        client.attach_receiver(None, 1, name="sub", source=lasting)
        client.detach(1, closed=False)
    else:
        source = composite(spec.SOURCE, address="/exchanges/x/k", capabilities=["topic"])
    queue, reads = "^amq[.]subscription", []
    if "read queue" in needs:
        reads.append(queue)
    if "read exchange" in needs:
        reads.append("^x$")
    configure = queue if "configure queue" in needs else ""
    write = queue if "write queue" in needs else ""
    table.set_permission("guest", "/", Permission(configure, write, "|".join(reads)))
    table.set_topic_permission("guest", "/", "x", TopicPermission("", "^k$" if "read topic" in needs else ""))
    return [str(each) for each in client.attach_receiver(None, 2, name="sub", source=source)]


@pytest.mark.parametrize("row", SUBSCRIPTIONS)
def test_subscription_with_the_needed_permissions_is_attached(row: str) -> None:
    assert "unauthorized" not in "".join(subscribed(row, list(AMQP_1_0[row])))


@pytest.mark.parametrize(("row", "need"), cells(dict.fromkeys(SUBSCRIPTIONS)))
def test_subscription_without_a_needed_permission_is_detached(row: str, need: str) -> None:
    assert "amqp:unauthorized-access" in subscribed(row, [each for each in AMQP_1_0[row] if each != need])[-1]


def test_open_needs_a_permission_in_the_virtual_host() -> None:
    client = restricted([])
    assert client.opened[0].name == "open"
    client.driver.broker.access.clear_permission("guest", "/")
    refused = Amqp10Dialogue(client.driver, session=False).opened
    assert [each.name for each in refused] == ["open", "close"]
    assert "access to vhost '/' refused for user 'guest'" in str(refused[1].field("error"))


@pytest.mark.parametrize("dynamic", DYNAMIC)
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
