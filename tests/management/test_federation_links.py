"""Links of federation: found from upstreams, sets, policies and objects."""

from __future__ import annotations

import pytest

from penstock.connections.log_line import LogLine
from penstock.core.consume.consumer import Consumer
from penstock.core.settings.policy_reader import read_policy
from penstock.core.settings.table import Parameter
from penstock.describe.table import Row
from penstock.management.bridges import BridgeTable
from penstock.management.federation_links import (
    LINKS_MOST,
    FederationLinks,
    link_key,
    link_row,
    missing_sentence,
    safe_uri,
    waiting_room,
)
from tests.support.settings_bench import Bench

URI = "amqp://user:secret@host:5673/eu?heartbeat=5"


class House(Bench):
    """A broker with links of federation."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[LogLine] = []
        self.links = FederationLinks(self.broker, self.lines.append, lambda: "here")

    def upstream(self, name: str, run_as: str = "anna", **value: object) -> Parameter:
        given = {"uri": URI, **{key.replace("_", "-"): each for key, each in value.items()}}
        parameter = Parameter("federation-upstream", "/", name, given, run_as)
        self.broker.table.parameters.put(parameter)
        return parameter

    def set_of(self, name: str, *elements: object) -> None:
        self.broker.table.parameters.put(Parameter("federation-upstream-set", "/", name, list(elements), ""))

    def exchange(self, name: str) -> None:
        self.vhost.declare_exchange(name, "topic", {"alternate-exchange": "lost"}, True, False, False)

    def specs(self) -> dict[str, Row]:
        return {str(spec["key"]): spec for spec in self.links.specs()}

    def revisions(self) -> dict[str, object]:
        return {key: spec["revision"] for key, spec in self.specs().items()}


@pytest.fixture
def house() -> House:
    return House()


def test_policy_with_an_upstream_gives_each_object_a_link(house: House) -> None:
    house.queue("q")
    house.exchange("x")
    house.set_policy("p", {"federation-upstream": "up"}, match="^[qx]$")
    assert house.specs() == {}
    house.upstream("up", prefetch_count=5, consumer_tag="tag", run_as="bob")
    house.upstream("other")
    specs = house.specs()
    assert [*specs] == ["federation:/:up:queue:q", "federation:/:up:exchange:x"]
    of_queue, of_exchange = specs.values()
    assert of_queue["run_as"] == "bob"
    assert of_queue["value"] == {"uri": URI, "prefetch-count": 5, "consumer-tag": "tag"}
    link = of_queue["link"]
    assert isinstance(link, dict)
    assert link.pop("id")
    assert link == {
        "kind": "queue", "resource": "q", "upstream": "q", "policy": "p", "uri": "amqp://host:5673/eu",
        "cluster": "here", "consumer_tag": "tag", "durable": False, "auto_delete": False, "arguments": {},
    }  # fmt: skip
    link = of_exchange["link"]
    assert isinstance(link, dict)
    assert (link["type"], link["durable"], link["auto_delete"]) == ("topic", True, False)
    assert link["arguments"] == {"alternate-exchange": "lost"}


def test_names_at_the_upstream_are_those_of_its_value(house: House) -> None:
    house.queue("q")
    house.exchange("x")
    house.set_policy("p", {"federation-upstream-set": "all"}, match="^[qx]$")
    house.upstream("up", queue="far:q", exchange="far")
    assert [*house.specs()] == ["federation:/:up:queue=far%3Aq:q", "federation:/:up:exchange=far:x"]
    assert [spec["link"]["upstream"] for spec in house.specs().values()] == ["far:q", "far"]  # type: ignore[index]


def test_set_has_its_upstreams_with_keys_that_it_replaces(house: House) -> None:
    house.queue("q")
    house.set_policy("p", {"federation-upstream-set": "two"}, match="^q$")
    house.upstream("a", max_hops=1)
    house.upstream("b")
    assert house.specs() == {}
    house.set_of("two", {"upstream": "a", "max-hops": 3, "uri": "amqp://else"}, {"upstream": "none"}, "odd")
    (spec,) = house.specs().values()
    assert spec["value"] == {"uri": URI, "max-hops": 3}
    house.set_of("two", {"upstream": "a"}, {"upstream": "b"}, {"upstream": "b", "queue": "q2"})
    assert [*house.specs()] == ["federation:/:a:queue:q", "federation:/:b:queue:q", "federation:/:b:queue=q2:q"]


def test_expression_chooses_upstreams_by_name(house: House) -> None:
    house.queue("q")
    house.set_policy("p", {"federation-upstream-pattern": "^eu-"}, match="^q$")
    for name in ("eu-1", "us-1", "eu-2"):
        house.upstream(name)
    assert [spec["name"] for spec in house.specs().values()] == ["eu-1", "eu-2"]


def test_upstream_of_another_vhost_gives_no_link(house: House) -> None:
    house.queue("q")
    house.set_policy("p", {"federation-upstream-set": "all"}, match="^q$")
    house.broker.table.parameters.put(Parameter("federation-upstream", "eu", "up", {"uri": URI}, "anna"))
    assert house.specs() == {}


def test_link_keeps_its_revision_until_something_of_it_changes(house: House) -> None:
    house.set_policy("p", {"federation-upstream-set": "all"}, match="^q")
    house.queue("q1")
    first = house.upstream("a")
    begun = house.revisions()
    house.queue("q2")
    house.broker.table.parameters.put(Parameter("shovel", "/", "s", {}, "anna"))
    house.upstream("b")
    later = house.revisions()
    assert later["federation:/:a:queue:q1"] == begun["federation:/:a:queue:q1"]
    assert len(set(later.values())) == 4
    house.broker.table.parameters.touch(first)
    touched = house.revisions()
    assert {key for key in later if later[key] != touched[key]} == {
        "federation:/:a:queue:q1",
        "federation:/:a:queue:q2",
    }
    house.set_policy("p2", {"federation-upstream": "b"}, match="^q2$")
    house.set_policy("p", {"federation-upstream-set": "all"}, match="^q1$")
    moved = house.revisions()
    assert {key for key in moved if moved[key] != touched.get(key)} == {"federation:/:b:queue:q2"}


def test_link_ends_with_object_policy_or_upstream(house: House) -> None:
    house.set_policy("p", {"federation-upstream-set": "all"}, match="^[qx]$")
    queue = house.queue("q")
    house.exchange("x")
    house.upstream("up")
    assert len(house.specs()) == 2
    house.broker.delete_queue(queue)
    assert [*house.specs()] == ["federation:/:up:exchange:x"]
    house.clear_policy("p")
    assert house.specs() == {}
    house.set_policy("p", {"federation-upstream-set": "all"}, match="^x$")
    assert len(house.specs()) == 1
    house.broker.table.parameters.drop("federation-upstream", "/", "up")
    assert house.specs() == {}


def test_links_are_bridges_that_are_paused_with_their_upstream(house: House) -> None:
    bridges = BridgeTable(house.broker, house.lines.append)
    bridges.sources.append(house.links)
    house.set_policy("p", {"federation-upstream-set": "all"}, match="^q$")
    house.queue("q")
    house.upstream("up", run_as="")
    assert bridges.wanted() == {}
    (row,) = bridges.rows()
    assert row["state"] == "paused"
    assert link_row(row, "n")["status"] == "shutdown"
    epoch = bridges.epoch
    house.upstream("up")
    assert bridges.epoch > epoch
    assert [*bridges.wanted()] == ["federation:/:up:queue:q"]


def test_links_beyond_the_bound_are_left_out_and_logged_once(house: House) -> None:
    house.set_policy("p", {"federation-upstream-set": "all"}, match="^q")
    house.upstream("up")
    for number in range(LINKS_MOST + 2):
        house.queue(f"q{number}")
    assert len(house.specs()) == LINKS_MOST
    house.queue("q")
    assert len(house.specs()) == LINKS_MOST
    (line,) = house.lines
    assert line.text == house.links.left_out
    assert line.text.startswith(f"queue 'q{LINKS_MOST}' in vhost '/', and all after it, have no link of federation")
    house.clear_policy("p")
    assert house.specs() == {}
    assert house.links.left_out == ""


def test_news_are_other_bindings_and_consumers_that_begin_or_cease_to_wait(house: House) -> None:
    bridges = BridgeTable(house.broker, house.lines.append)
    bridges.sources.append(house.links)
    house.set_policy("p", {"federation-upstream-set": "all"}, match="^[qx]$")
    queue = house.queue("q")
    house.exchange("x")
    house.upstream("up")
    assert bridges.news() == []
    house.vhost.bind("x", queue, None, "k", {})
    assert bridges.news() == ["federation:/:up:exchange:x"]
    assert bridges.news() == []
    consumer = Consumer("c", house.session, queue, False, False, 5)
    house.broker.consume(house.session, consumer)
    assert bridges.news() == ["federation:/:up:queue:q"]
    assert bridges.news() == []
    house.broker.cancel(house.session, "c")
    assert bridges.news() == ["federation:/:up:queue:q"]
    house.upstream("up", run_as="")
    house.vhost.unbind("x", queue, None, "k", {})
    assert bridges.news() == []


def test_policy_without_upstreams_is_told(house: House) -> None:
    def sentence(**definition: object) -> str:
        given = {key.replace("_", "-"): value for key, value in definition.items()}
        return missing_sentence(house.broker, read_policy("/", "p", {"pattern": "q", "definition": given}, False))

    assert sentence(max_length=5) == ""
    assert sentence(federation_upstream_set="all").startswith(
        "federation-upstream-set=all names no upstream of vhost '/' yet"
    )
    house.upstream("eu-1")
    assert sentence(federation_upstream_set="all") == ""
    assert sentence(federation_upstream_pattern="^eu") == ""
    assert "federation-upstream=us-1 names no upstream" in sentence(federation_upstream="us-1")


def test_links_of_others_at_a_queue_are_no_waiting_consumers(house: House) -> None:
    queue = house.queue("q")
    house.broker.consume(house.session, Consumer("c", house.session, queue, False, False, 5, priority=-1))
    assert waiting_room(queue, 100, 0.0) == 0
    house.broker.consume(house.session, Consumer("d", house.session, queue, False, False, 3))
    assert waiting_room(queue, 100, 0.0) == 3
    assert waiting_room(queue, 2, 0.0) == 2


def test_links_of_different_objects_have_different_keys() -> None:
    keys = {
        link_key("/", "a:queue", "queue", "x", "x"),
        link_key("/", "a", "queue", "queue:x", "queue:x"),
        link_key("/", "a", "queue", "x", "queue:x"),
        link_key("/:a", "queue", "queue", "x", "x"),
        link_key("/", "a%3Aqueue", "queue", "x", "x"),
    }
    assert len(keys) == 5


@pytest.mark.parametrize(
    ("uri", "safe"),
    [
        ("amqp://user:secret@host/v", "amqp://host/v"),
        (["amqps://u:p@[::1]:5671/a%2Fb?password=p", "amqp://other"], "amqps://[::1]:5671/a%2Fb"),
        ("amqp://", "amqp://"),
        ("amqp://u:p@host:99999", ""),
        ([], ""),
        (None, ""),
        (5, ""),
    ],
)
def test_uri_of_a_row_has_no_credentials(uri: object, safe: str) -> None:
    assert safe_uri(uri) == safe


@pytest.mark.parametrize(
    ("state", "status", "more"),
    [
        ("moving", "running", {"local_connection": "federation:/:up:queue:q"}),
        ("held", "running", {"local_connection": "federation:/:up:queue:q"}),
        ("away", "error", {"error": "refused"}),
        ("starting", "starting", {"error": "refused"}),
    ],
)
def test_row_of_rabbitmq_has_all_fields_of_a_link(house: House, state: str, status: str, more: Row) -> None:
    bridges = BridgeTable(house.broker, house.lines.append)
    bridges.sources.append(house.links)
    house.set_policy("p", {"federation-upstream-set": "all"}, match="^[qx]$")
    house.queue("q")
    house.upstream("up", queue="far")
    key = next(iter(bridges.wanted()))
    bridges.report(key, {"state": state, "reason": "refused", "since": 1_700_000_000}, 5.0)
    (row,) = bridges.rows()
    found = link_row(row, "penstock@host")
    more = {name: key if name == "local_connection" else value for name, value in more.items()}
    assert len(str(found.pop("id"))) == 8
    assert found == {
        "node": "penstock@host", "queue": "q", "upstream_queue": "far", "consumer_tag": "federation-link-up",
        "type": "queue", "vhost": "/", "upstream": "up", "status": status, "uri": "amqp://host:5673/eu",
        "timestamp": "2023-11-14 22:13:20", **more,
    }  # fmt: skip
    assert "secret" not in str(row)
