"""Lists over HTTP: pages, columns, order, and their share of a turn."""

from __future__ import annotations

import asyncio

from penstock.operations.lists import COLUMN_CHARACTERS, COLUMNS_MOST
from tests.support.brokers import in_process
from tests.support.http_client import Web


def test_list_has_pages_names_columns_and_an_order(web: Web, name: str) -> None:
    for number in range(7):
        web.declare(f"{name}-{number}")
    web.publish(f"{name}-3")
    page = web.get(f"/queues/%2F?page=2&page_size=3&name={name.upper()}&columns=name")
    assert page["items"] == [{"name": f"{name}-{number}"} for number in (3, 4, 5)]
    counts = ("filtered_count", "item_count", "page", "page_count", "page_size")
    assert [page[key] for key in counts] == [7, 3, 2, 3, 3]
    assert page["total_count"] >= 7
    first = web.get(
        f"/queues/%2F?page=1&name={name}&sort=messages&sort_reverse=true&columns=name,penstock.depth.messages"
    )
    assert first["items"][0] == {"name": f"{name}-3", "penstock": {"depth": {"messages": 1}}}
    names = [queue["name"] for queue in web.get("/queues?columns=name")]
    assert names == sorted(names)
    assert web.get("/queues?sort=name&sort_reverse=true&columns=name")[-1]["name"] == names[0]
    assert web.ask("GET", "/queues?page=99").json["error"] == "page_out_of_range"
    for query in ("page=0", "page=x", "page=1&page_size=501", "page=1&name=(&use_regex=true"):
        assert web.ask("GET", f"/queues?{query}").status == 400, query
    assert web.ask("GET", "/queues/nowhere").status == 404


def test_use_regex_finds_names_by_an_expression_in_either_case(web: Web, name: str) -> None:
    """KEDA asks so (`useRegex`), with these parameters."""
    for number in range(60):
        web.declare(f"{name}-{number}")
    asked = f"/queues/%2F?page=1&use_regex=true&pagination=false&name=%5E{name.upper()}-%5Cd%24&page_size=100"
    assert [queue["name"] for queue in web.get(asked)["items"]] == [f"{name}-{number}" for number in range(10)]
    others = web.get(f"/queues?page=1&use_regex=true&name=%5E(%3F!{name})&columns=name")
    assert [queue["name"] for queue in others["items"] if queue["name"].startswith(name)] == []
    refused = web.ask("GET", "/queues?page=1&use_regex=true&name=(a)%5C1")
    assert refused.status == 400
    assert "refused by RE2" in refused.json["reason"]


def test_list_longer_than_a_slice_is_whole_json(web: Web) -> None:
    web.do("PUT", "/vhosts/many", status=201)
    for number in range(120):
        web.do("PUT", f"/queues/many/q{number:03}", {}, status=201)
    assert [queue["name"] for queue in web.get("/queues/many")] == [f"q{number:03}" for number in range(120)]
    assert len(web.get("/bindings/many")) == 120
    assert len(web.get("/definitions/many")["queues"]) == 120
    web.do("DELETE", "/vhosts/many")


async def test_list_is_collected_and_sorted_some_at_a_time_and_is_in_order() -> None:
    async with in_process(http="127.0.0.1:0") as broker:
        vhost = broker.driver.broker.vhosts["/"]
        names = [f"q{number * 7919 % 2503}" for number in range(2503)]
        for name in names:
            vhost.declare_queue(name, {"k": name}, False, False, None, None)
        web = Web(broker.http_url)
        found = await asyncio.to_thread(web.get, "/queues?columns=name")
        assert [each["name"] for each in found] == sorted(names)
        found = await asyncio.to_thread(web.get, "/queues?sort=name&sort_reverse=true&columns=name")
        assert [each["name"] for each in found] == sorted(names, reverse=True)
        page = await asyncio.to_thread(web.get, "/queues?page=2&page_size=500&sort=arguments.k&columns=name")
        assert [each["name"] for each in page["items"]] == sorted(names)[500:1000]
        page = await asyncio.to_thread(web.get, "/queues?page=1&name=Q25&columns=name")
        assert [each["name"] for each in page["items"]] == [name for name in sorted(names) if "q25" in name]
        exported = await asyncio.to_thread(web.get, "/definitions")
        assert [each["name"] for each in exported["queues"]] == names


def test_number_and_length_of_columns_are_bounded(web: Web, name: str) -> None:
    web.declare(name)
    most = ",".join(["name", *(f"a.b{number}" for number in range(COLUMNS_MOST - 1))])
    assert web.get(f"/queues/%2F/{name}?columns={most}") == {"name": name}
    for path in ("queues", "queues/%2F", f"queues/%2F/{name}", "overview", "exchanges", "bindings"):
        answer = web.ask("GET", f"/{path}?columns={most},more")
        assert (answer.status, answer.json["reason"]) == (
            400, f"columns names {COLUMNS_MOST + 1} columns; at most {COLUMNS_MOST} are permitted",
        ), path  # fmt: skip
    long = "a." * COLUMN_CHARACTERS
    for parameter in ("columns", "sort"):
        answer = web.ask("GET", f"/queues?{parameter}={long}")
        assert answer.status == 400
        assert answer.json["reason"].startswith(
            f"{parameter} has a column of {len(long)} characters that begins with 'a.a."
        )


def test_value_of_a_query_that_cannot_be_meant_is_refused_by_its_kind(web: Web) -> None:
    for query, reason in (
        ("page=0", "page must be a whole number from 1 to 999999999, not '0'"),
        ("page=1&page_size=x", "page_size must be a whole number from 1 to 999999999, not 'x'"),
        ("msg_rates_age=60&msg_rates_incr=1.5", "msg_rates_incr must be a whole number from 1 to 999999999, not '1.5'"),
        ("sort=name&sort_reverse=maybe", "sort_reverse must be true or false, not 'maybe'"),
    ):
        answer = web.ask("GET", f"/queues?{query}")
        assert (answer.status, answer.reason) == (400, reason)
    refused = web.ask("POST", "/definitions?dry_run=maybe", {})
    assert (refused.status, refused.reason) == (400, "dry_run must be true or false, not 'maybe'")
    assert web.ask("GET", "/queues?sort=name&sort_reverse=on&page=&msg_rates_age=5").status == 200


def test_page_by_group_has_counts_of_groups_and_the_state_in_words(web: Web, name: str) -> None:
    for each in ("left", "empty"):
        web.declare(f"{name}-{each}")
    web.publish(f"{name}-left")
    web.declare(f"{name}-held")
    web.do("POST", "/penstock/block", {"queue": f"{name}-held", "reason": "upgrade"}, status=200)
    page = web.get(f"/queues?page=1&groups=true&name={name}&columns=name,penstock.state")
    states = [(each["name"].removeprefix(f"{name}-"), each["penstock"]["state"]) for each in page["items"]]
    assert [(each, state["group"]) for each, state in states] == [
        ("held", "blocked"), ("left", "unread"), ("empty", "quiet"),
    ]  # fmt: skip
    held = states[0][1]
    assert held["text"].startswith("held by the operator ")
    assert (held["held"]["scope"], held["held"]["reason"]) == ("queue", "upgrade")
    assert page["penstock"]["groups"] == {"blocked": 1, "unread": 1, "moving": 0, "quiet": 1, "dead": 0}
    dead = web.get(f"/queues/%2F?page=1&groups=true&name={name}&state=dead")
    assert (dead["items"], dead["penstock"]["groups"]) == ([], page["penstock"]["groups"])
    assert web.ask("GET", "/queues?state=closed").status == 400
    assert web.ask("GET", "/queues?groups=true").reason == "'groups' counts the queues of a page: give 'page' too"
