"""Names of connections and channels over HTTP: RabbitMQ's in each row, with Penstock's own beside it.

| place | of a connection | of a channel |
|---|---|---|
| row | `name`, `penstock.name`, `penstock.label` | the same |
| `connection_details`, `owner_pid_details` | `name`, `penstock.name` | |
| `channel_details` | `connection_name` | `name`, `penstock.name` |
| path, and `why`, `block` and `unblock` | both names, and the client's | both names |
| label of a metric, and the line of an opening in the log | `penstock.name` | `penstock.name` |
| lists of commands, sentences and log lines | `penstock.label` | `penstock.label` |
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any
from urllib.parse import quote

import pika
import pytest

from tests.support.brokers import PATIENCE, BrokerProcess, eventually
from tests.support.commands import listed, run, told
from tests.support.http_client import Web
from tests.support.metrics import samples_of
from tests.support.pika_helpers import named_connection


def whole(name: str) -> str:
    """Return a name as most clients quote it."""
    return quote(name, safe="")


def with_slashes(name: str) -> str:
    """Return a name as clients quote it that leave a slash alone."""
    return quote(name)


class Seen:
    """A connection with a channel and a consumer, as the API shows it."""

    def __init__(self, broker: BrokerProcess, web: Web, name: str, client: pika.BlockingConnection) -> None:
        self.web = web
        self.given = name
        self.client = client
        self.channel = client.channel()
        self.channel.queue_declare(name, exclusive=True)
        self.channel.basic_consume(name, lambda *_: None)
        rows = [each for each in web.get("/connections") if each["user_provided_name"] == name]
        (self.row,) = rows
        self.own: str = self.row["penstock"]["name"]
        port = self.row["peer_port"]
        self.label = f"{name} (con:{self.row['penstock']['number']})"
        self.theirs = f"127.0.0.1:{port} -> {broker.host}:{broker.port}"


@pytest.fixture
def seen(served: BrokerProcess, web: Web, name: str) -> Iterator[Seen]:
    client = named_connection(served.url, name)
    try:
        yield Seen(served, web, name, client)
    finally:
        with suppress(pika.exceptions.AMQPConnectionError):  # A test may have closed it over HTTP.
            client.close()


def test_rows_of_a_connection_and_its_channel_have_the_names_of_rabbitmq(seen: Seen) -> None:
    web, theirs, own = seen.web, seen.theirs, seen.own
    assert (seen.row["name"], own) == (theirs, f"con:{seen.row['penstock']['number']}(guest@{theirs.split()[0]}/)")
    path = f"/connections/{whole(theirs)}"
    (channel,) = web.get(f"{path}/channels")
    assert (channel["name"], channel["penstock"]["name"]) == (f"{theirs} (1)", f"{own}/ch:1")
    consumers = [each for each in web.get("/consumers/%2F") if each["queue"]["name"] == seen.given]
    found = [web.get(path), *(each for each in web.get("/connections") if each["user_provided_name"] == seen.given)]
    assert {each["name"] for each in found} == {theirs}
    details: list[Any] = [channel["connection_details"], web.queue(seen.given)["owner_pid_details"]]
    assert [(each["name"], each["penstock"]) for each in details] == [(theirs, {"name": own})] * 2
    for details_of in (consumers[0], web.get(f"/channels/{whole(channel['name'])}")["consumer_details"][0]):
        each = details_of["channel_details"]
        assert (each["name"], each["connection_name"]) == (f"{theirs} (1)", theirs)
        assert each["penstock"] == {"name": f"{own}/ch:1", "label": f"{seen.label}/ch:1"}


@pytest.mark.parametrize("quoted", [whole, with_slashes])
def test_connection_is_shown_and_closed_by_the_name_of_rabbitmq(seen: Seen, quoted: Any) -> None:
    path = f"/connections/{quoted(seen.row['name'])}"
    assert seen.web.get(path)["penstock"]["name"] == seen.own
    assert [each["number"] for each in seen.web.get(f"{path}/channels")] == [1]
    assert seen.web.get(f"/channels/{quoted(seen.row['name'] + ' (1)')}")["penstock"]["name"] == f"{seen.own}/ch:1"
    seen.web.do("DELETE", path)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
        seen.client.process_data_events(PATIENCE)
    eventually(lambda: seen.web.ask("GET", path).status == 404, "it is gone")


@pytest.mark.parametrize("name", ["a/b//c"])
def test_name_with_slashes_is_found_by_a_path_with_slashes(seen: Seen) -> None:
    web = seen.web
    for name in (seen.own, seen.given, seen.label):
        for quoted in (whole(name), with_slashes(name)):
            assert web.get(f"/connections/{quoted}")["name"] == seen.theirs
            assert [each["number"] for each in web.get(f"/connections/{quoted}/channels")] == [1]
            assert web.get(f"/channels/{quoted}/ch:1")["name"] == f"{seen.theirs} (1)"
    web.do("DELETE", f"/connections/{with_slashes(seen.own)}")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
        seen.client.process_data_events(PATIENCE)


def test_connection_and_its_channel_are_found_by_each_of_their_names(seen: Seen) -> None:
    web = seen.web
    for name in (seen.theirs, seen.own, seen.given, seen.label, str(seen.row["penstock"]["number"])):
        assert web.get(f"/connections/{whole(name)}")["name"] == seen.theirs
        assert web.get(f"/connections/{whole(name)}/channels")[0]["number"] == 1
        for channel in (f"{name} (1)", f"{name}/ch:1"):
            assert web.get(f"/channels/{whole(channel)}")["name"] == f"{seen.theirs} (1)"
        assert web.get(f"/penstock/why?connection={whole(name)}")["name"] == seen.own
        assert web.get(f"/penstock/why?channel={whole(name)}/1")["channel"] == f"{seen.own}/ch:1"
        web.do("POST", "/penstock/block", {"connection": name}, status=200)
        web.do("POST", "/penstock/unblock", {"connection": name}, status=200)


@pytest.mark.parametrize(
    "path", ["/connections/none", "/connections/none/channels", "/channels/none", "/channels/none (1)"]
)
def test_name_of_nothing_is_not_found(web: Web, path: str) -> None:
    assert web.ask("GET", quote(path)).status == 404


def test_name_that_two_clients_give_is_refused(served: BrokerProcess, web: Web, name: str) -> None:
    with closing(named_connection(served.url, name)), closing(named_connection(served.url, name)):
        answer = web.ask("GET", f"/connections/{name}")
        assert (answer.status, "2 connections have the connection_name" in answer.reason) == (400, True)
        assert web.ask("DELETE", f"/connections/{name}").status == 400
        assert len([each for each in web.get("/connections") if each["user_provided_name"] == name]) == 2


def test_search_and_order_of_a_list_know_both_names(seen: Seen) -> None:
    for part in (seen.theirs, seen.own):
        found = seen.web.get(f"/connections?page=1&name={whole(part)}&sort=penstock.name")
        assert [each["penstock"]["name"] for each in found["items"]] == [seen.own]
        found = seen.web.get(f"/channels?page=1&name={whole(part)}&sort=name")
        assert [each["penstock"]["name"] for each in found["items"]] == [f"{seen.own}/ch:1"]
    expression = whole(rf"^con:{seen.row['penstock']['number']}\(")
    assert seen.web.get(f"/connections?page=1&use_regex=true&name={expression}")["item_count"] == 1


def test_metrics_have_the_name_in_the_log_and_commands_that_of_the_client(served: BrokerProcess, seen: Seen) -> None:
    samples = samples_of(seen.web.fetch("/metrics/detailed?family=connection_metrics&family=channel_metrics").text)
    labels = {label for sample in samples for label in sample[1:]}
    assert {f"connection={seen.own}", f"channel={seen.own}/ch:1"} <= labels
    assert not [label for label in labels if "->" in label]
    assert f"[{seen.own}] CON-1001 : Open" in served.log()
    assert seen.label in run(served, "connections", "list")
    assert f"{seen.label}/ch:1" in run(served, "channels", "list")
    assert seen.own in [each["penstock"]["name"] for each in listed(served, "connections")]
    assert told(served, "connection", "close", seen.theirs) == {"closed": seen.label}
