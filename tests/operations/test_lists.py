"""Lists: the same rows in the same order over HTTP and by the control exchange, whichever part is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import quote

import pytest

import penstock
from penstock.access.user import EVERYTHING
from penstock.describe.conditions import key_of
from penstock.describe.lists import PAGE_MOST, STORED_MOST, Found
from penstock.driver.driver import BrokerDriver
from penstock.errors import BrokerError
from penstock.flow.work import LOOKING_SHARE, Steps, finish
from penstock.operations.lists import CONDITIONS_MOST, ListQuery, found_steps, list_query
from penstock.operations.table import KINDS, OPERATIONS
from tests.support.access_of import access_of
from tests.support.brokers import in_process
from tests.support.control_requests import answers, request
from tests.support.driven_connection import Dialogue, make_driver
from tests.support.http_client import Web
from tests.support.operation_calls import ask, request_of
from tests.support.turn_costs import turn_costs

COLUMNS = {
    "queues": ("messages", "policy", "arguments.capacity-messages"),
    "exchanges": ("type", "durable"),
    "bindings": ("routing_key", "destination"),
    "connections": ("user", "channels"),
    "channels": ("number", "consumer_count"),
    "consumers": ("consumer_tag", "queue.name"),
    "cursors": ("unsettled", "vhost"),
    "leases": ("number", "user"),
    "sinks": ("query", "user"),
    "vhosts": ("messages", "tracing"),
    "users": ("tags", "penstock.source"),
    "permissions": ("user", "vhost"),
    "topic-permissions": ("user", "exchange"),
    "policies": ("pattern", "priority"),
    "operator-policies": ("pattern", "vhost"),
    "parameters": ("component", "name"),
    "global-parameters": ("name", "value"),
    "bridges": ("source", "carried"),
}
"""Columns by which each kind is sorted here: with equal values, and with none."""
IDENTITY = (
    "vhost",
    "name",
    "source",
    "routing_key",
    "destination",
    "consumer_tag",
    "number",
    "query",
    "user",
    "exchange",
    "component",
)
Rows = list[dict[str, Any]]


def identities(rows: Rows) -> list[tuple[str, ...]]:
    """Return what tells rows of one kind apart."""
    return [tuple(str(row.get(name)) for name in IDENTITY) for row in rows]


def path_of(kind: str) -> str:
    """Return the path of all objects of a kind."""
    paths = [path for row in OPERATIONS for route in row.routes for path in route.paths if "{" not in path]
    (path,) = [each for each in paths if each in (f"/{kind}", f"/penstock/{kind}")]
    return path


async def populate(url: str, stack: AsyncExitStack) -> None:
    """Make objects of every kind, with names in no order."""
    for number, host in enumerate(("/", "other")):
        where = f"{url.rstrip('/')}/{quote(host, safe='')}"
        client = await stack.enter_async_context(penstock.connect(where, protocol="amqp091"))
        for each in range(11):
            name = f"q{each * 7 % 11}"
            await client.declare_queue(name, capacity_messages=100 + each % 3)
            await client.bind(name, "amq.topic", f"k{each % 4}")
            if each % 3 == 0:
                publisher = client.publisher(name)
                for _ in range(each):
                    await publisher.publish(b"x")
            if each % 4 == 1:
                await stack.enter_async_context(client.receiver(name))
        await client.declare_exchange(f"x{9 - number}", "topic")
        await client.set_policy("some", "^q[6-9]$", {"max-length": 1000})
        await client.request("cursor.attach", cursor=f"c{2 - number}", queues=["q1"])
        await client.request("lease.open", queues=["q2"], query="7c3e")
        batch = {"query": f"query{number}", "batch": 0, "run": "r", "write": "w", "exchange": "", "routing_key": "q3"}
        await client.request("sink.begin", **batch, delivery="dedup", partition=0, attempt=0)
        await client.request("user.declare", name=f"user{2 - number}", tags=["management"])


def configure(web: Web) -> None:
    """Make objects that belong to users and virtual hosts, over HTTP."""
    for number, host in enumerate(("%2F", "other")):
        user = f"user{2 - number}"
        web.do("PUT", f"/permissions/{host}/{user}", {"configure": "", "write": "", "read": ".*"}, status=201)
        web.do(
            "PUT", f"/topic-permissions/{host}/{user}", {"exchange": "amq.topic", "write": "a", "read": ""}, status=201
        )
        definition = {"pattern": f"^{number}", "definition": {"max-length": 9}}
        web.do("PUT", f"/operator-policies/{host}/o{9 - number}", definition, status=201)
        web.do("PUT", f"/parameters/some/{host}/p{9 - number}", {"value": number}, status=201)
        for each in (9, 5):
            shovel = {"src-uri": "amqp://host", "src-queue": f"q{each}", "dest-uri": "amqp://other", "dest-queue": "q"}
            web.do("PUT", f"/parameters/shovel/{host}/s{each - number}", {"value": shovel}, status=201)
        web.do("PUT", f"/global-parameters/g{9 - number}", {"value": f"v{number}"}, status=201)


@pytest.fixture
async def scene() -> AsyncIterator[tuple[BrokerDriver, Web]]:
    async with in_process(http="127.0.0.1:0") as broker:
        web = Web(broker.http_url)
        await asyncio.to_thread(web.do, "PUT", "/vhosts/other", status=201)
        async with AsyncExitStack() as stack:
            await populate(broker.url, stack)
            await asyncio.to_thread(configure, web)
            yield broker.driver, web


def walked(driver: BrokerDriver, kind: str, count: int, **fields: object) -> Rows:
    """Return the rows of a list by control requests, one page after another."""
    rows: Rows = []
    after: int | None = 0
    access = access_of(driver.broker)
    while after is not None:
        asked = {"kind": kind, "everywhere": True, "after": after, "count": count, **fields}
        page = ask(driver, "list", asked, access=access)
        assert len(page["items"]) <= count
        rows += page["items"]
        after = page["next"]
    return rows


async def paged(web: Web, path: str, query: str) -> Rows:
    """Return the rows of a list over HTTP, page by page."""
    rows: Rows = []
    number = 1
    while True:
        page = await asyncio.to_thread(web.get, f"{path}?page={number}&page_size=4&{query}")
        rows += page["items"]
        assert page["filtered_count"] <= page["total_count"]
        if number == page["page_count"]:
            assert len(rows) == page["filtered_count"]
            return rows
        number += 1


async def test_lists_of_all_planes_have_the_same_rows_in_the_same_order(scene: tuple[BrokerDriver, Web]) -> None:
    driver, web = scene
    assert [kind.name for kind in KINDS] == [*COLUMNS]
    for kind in KINDS:
        path, own = path_of(kind.name), ["name"] if kind.by_name else []
        for column in (None, "name", *COLUMNS[kind.name]):
            for reverse in (False, True):
                query = f"sort_reverse={str(reverse).lower()}" + (f"&sort={column}" if column else "")
                whole = await asyncio.to_thread(web.get, f"{path}?{query}")
                fields = {"sort": [column] if column else own, "reverse": reverse}
                found = walked(driver, kind.name, 4, **fields)
                assert len(found) >= 2, kind.name
                assert identities(found) == identities(whole), (kind.name, query)
                assert identities(await paged(web, path, query)) == identities(whole), (kind.name, query)
                if column not in (None, "name"):
                    keys = [key_of(value_at(row, column)) for row in whole]
                    assert keys == sorted(keys, reverse=reverse), (kind.name, query)


def value_at(row: Any, path: str) -> object:
    for name in path.split("."):
        row = row.get(name) if isinstance(row, dict) else None
    return row


@pytest.mark.parametrize("regex", [False, True])
async def test_name_filter_of_all_planes_finds_the_same_rows(scene: tuple[BrokerDriver, Web], regex: bool) -> None:
    driver, web = scene
    for kind in KINDS:
        rows = walked(driver, kind.name, PAGE_MOST)
        wanted = "^(Q|X|C)[0-5]" if regex else "1"
        query = f"name={quote(wanted)}" + ("&use_regex=true" if regex else "")
        found = walked(driver, kind.name, 4, named=wanted, regex=regex, sort=["name"])
        assert identities(found) == identities(await paged(web, path_of(kind.name), f"{query}&sort=name")), kind.name
        assert {*identities(found)} <= {*identities(rows)}
        if kind.name == "queues":
            assert 0 < len(found) < len(rows)
            assert all(("1" in row["name"]) or regex for row in found)


def test_list_in_an_order_is_one_list_under_changes_between_its_pages() -> None:
    client = Dialogue(make_driver())
    vhost = client.driver.broker.vhosts["/"]
    for number in range(20):
        vhost.declare_queue(f"q{number:02}", {}, False, False, None, None)
    vhost.declare_queue("answers", {"capacity-bytes": "none"}, False, False, None, None)
    names: list[str] = []
    after: int | None = 0
    while after is not None:
        client.say(request("list", kind="queues", sort=["-name"], after=after, count=7))
        page = answers(client.driver)[-1]
        names += [row["name"] for row in page["items"]]
        after = page["next"]
        vhost.declare_queue(f"z{after}", {}, False, False, None, None)
    assert names == [*(f"q{number:02}" for number in range(19, -1, -1)), "answers"]


def test_conditions_and_orders_of_a_list_count_together() -> None:
    driver = make_driver()
    vhost = driver.broker.vhosts["/"]
    for number in range(9):
        vhost.declare_queue(f"q{number}", {"k": number % 3, "n": str(number)}, number % 2 == 0, False, None, None)

    def found(*filters: str, sort: tuple[str, ...] = ("name",)) -> list[str]:
        fields = {"kind": "queues", "filters": [*filters], "sort": [*sort]}
        return [row["name"][1:] for row in ask(driver, "list", fields, access=access_of(driver.broker))["items"]]

    assert found("arguments.k>0", "durable=true") == ["2", "4", "8"]
    assert found("arguments.k=0") == found("arguments.k<1") == ["0", "3", "6"]
    assert found("name~[12]$") == ["1", "2"]
    assert found("name!~[0-6]") == ["7", "8"]
    assert found("arguments~k=2 n=5") == ["5"]
    assert found("messages>0") == []
    assert found("durable=yes", sort=("-arguments.k", "name")) == ["2", "8", "4", "0", "6"]
    assert found("policy=-", sort=("-name",))[:2] == ["8", "7"]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"kind": "tables"}, "'kind' must be one of queues, exchanges, "),
        ({"sort": ["massages"]}, r"no column 'massages'; did you mean messages\? Known are arguments, auto_delete"),
        ({"filters": ["massages>1"]}, "no column 'massages'"),
        ({"kind": "cursors", "sort": ["legs"]}, r"no column 'legs'; did you mean idle_s\? Known are asked_s_ago"),
        ({"filters": ["messages"]}, "'messages' is no test: write COLUMN=VALUE"),
        ({"filters": ["messages>x"]}, "'x' is no number"),
        ({"filters": ["name~("]}, "the pattern"),
        ({"filters": "messages>1"}, "'filters' must be a list of strings"),
        ({"sort": [f"-a.{number}" for number in range(CONDITIONS_MOST + 1)]}, "'sort' has 33 entries; at most 32"),
        ({"columns": ["x" * 129]}, "columns has a column of 129 characters that begins with 'xxx"),
        ({"named": "x" * 1_001}, "'named' has a text of 1,001 characters that begins with 'xxx"),
        ({"filters": ["name~" + "x" * 1_001]}, "'filters' has a text of 1,001 characters"),
        ({"page": 1, "page_size": 501}, "page_size must be between 1 and 500, not 501"),
        ({"rates": [60]}, "'rates' must be a list of age and increment in seconds"),
        ({"kind": "users"}, "ACCESS_REFUSED|tag administrator"),
    ],
)
def test_invalid_query_is_refused_in_a_sentence(fields: dict[str, object], says: str) -> None:
    driver = make_driver()
    driver.broker.access.put_user("anna", None, ["management"])
    vhost = driver.broker.vhosts["/"]
    vhost.declare_queue("q", {}, False, False, None, None)
    driver.broker.access.set_permission("anna", "/", EVERYTHING)
    client = Dialogue(driver)
    client.say(request("cursor.attach", cursor="c", queues=["q"]))
    with pytest.raises(BrokerError, match=says):
        ask(driver, "list", {"kind": "queues", **fields}, access=access_of(driver.broker, "anna"))


def test_columns_of_objects_that_a_user_may_not_see_are_not_told() -> None:
    driver = make_driver()
    driver.broker.access.put_user("anna", None, ["management"])
    Dialogue(driver).say(request("cursor.attach", cursor="c", queues=[]))
    fields = {"kind": "connections", "sort": ["legs"], "everywhere": True}
    assert ask(driver, "list", fields, access=access_of(driver.broker, "anna"))["items"] == []
    with pytest.raises(BrokerError, match="no column 'legs'"):
        ask(driver, "list", fields, access=access_of(driver.broker))


def test_page_has_numbers_and_columns_by_control_too() -> None:
    driver = make_driver()
    for number in range(5):
        driver.broker.vhosts["/"].declare_queue(f"q{number}", {}, False, False, None, None)
    fields = {"kind": "queues", "page": 2, "page_size": 2, "columns": ["name"]}
    assert ask(driver, "list", fields, access=access_of(driver.broker)) == {
        "filtered_count": 5, "item_count": 2, "page": 2, "page_count": 3, "page_size": 2, "total_count": 5,
        "items": [{"name": "q2"}, {"name": "q3"}],
    }  # fmt: skip


def of_lists(driver: BrokerDriver, **fields: object) -> Steps[Found]:
    """Return the steps of a list of queues."""
    asked = request_of(driver, **fields)
    query: ListQuery = list_query(driver, asked, driver.control.kinds["queues"])
    return found_steps(driver, asked, query)


@pytest.mark.parametrize(
    "fields",
    [
        {"sort": ["-messages"]},
        {"sort": ["policy", "name"]},
        {"named": "q1"},
        {"named": "^q1", "regex": True},
        {"filters": ["messages=0", "name~1"]},
        {"page": 3, "page_size": 300},
    ],
)
def test_list_of_thousands_is_found_in_small_slices(fields: dict[str, object]) -> None:
    driver = make_driver()
    for number in range(3_000):
        driver.broker.vhosts["/"].declare_queue(f"q{number * 7 % 3_000}", {}, False, False, None, None)
    slices, _ = turn_costs(driver.broker.work, of_lists(driver, **fields), LOOKING_SHARE)
    assert max(slices) <= 2 * LOOKING_SHARE
    assert len(slices) >= 3_000 // LOOKING_SHARE


def test_longer_lists_in_an_order_are_not_kept_between_pages() -> None:
    driver = make_driver()
    for number in range(10):
        driver.broker.vhosts["/"].declare_queue(f"q{number}", {}, False, False, None, None)
    assert STORED_MOST == 100_000
    lists = driver.control.lists
    for most, kept in ((10, 1), (6, 0)):
        lists.stored_most = most
        found = finish(of_lists(driver, sort=["name"], count=3))
        assert ([item.name for item in found.items], found.following) == (["q0", "q1", "q2"], 3)
        assert (len(lists._begun), lists._stored) == (kept, 7 * kept)
        found = finish(of_lists(driver, sort=["name"], count=3, after=3))
        assert [item.name for item in found.items] == ["q3", "q4", "q5"]
        finish(of_lists(driver, sort=["name"], count=500, after=6))
        assert lists._begun == {}
