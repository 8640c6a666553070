"""Columns, order, filters and number of rows of lists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest

from penstock.cli.derived import Columns, Shown, print_list, share_of, value_of
from penstock.cli.derived import _condition as condition
from penstock.describe.conditions import Condition
from tests.support.brokers import BrokerProcess, serving, some_name
from tests.support.commands import penstock_command, run
from tests.support.http_client import Web

ITEMS: list[dict[str, Any]] = [
    {"name": "b", "messages": 10, "gate": {"open": True}, "durable": True},
    {"name": "a", "messages": 9, "gate": {"open": False}, "durable": False},
    {"name": "c", "messages": None, "gate": {"open": True}, "durable": True, "message_stats": {"publish": 1}},
]
COLUMNS = Columns(("name", "messages"), {"state": lambda item: "open" if item["gate"]["open"] else "closed"})


def shown(columns: str = "", sort: str = "", filters: tuple[str, ...] = (), limit: int | None = None) -> Shown:
    return Shown(
        tuple(columns.split(",")) if columns else (),
        tuple(sort.split(",")) if sort else (),
        tuple(map(condition, filters)),
        limit,
        True,
    )


def names(capsys: pytest.CaptureFixture[str], **options: Any) -> list[str]:
    print_list(ITEMS, COLUMNS, shown(**options))
    return [json.loads(line)["name"] for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("messages>9", "b"),
        ("messages>=9", "ba"),
        ("messages<10", "a"),
        ("messages=9", "a"),
        ("messages!=9", "bc"),
        ("state=closed", "a"),
        ("gate.open=no", "a"),
        ("durable=true", "bc"),
        ("name~^[ab]$", "ba"),
        ("name!~a", "bc"),
        ("message_stats.publish=1", "c"),
        ("messages=-", "c"),
    ],
)
def test_filter_keeps_matching_rows(capsys: pytest.CaptureFixture[str], text: str, found: str) -> None:
    assert names(capsys, filters=(text,)) == list(found)


def test_filters_are_combined_and_rows_are_sorted_before_the_limit(capsys: pytest.CaptureFixture[str]) -> None:
    assert names(capsys, filters=("durable=true", "messages>1")) == ["b"]
    assert names(capsys, sort="messages") == ["c", "a", "b"], "a row without a value is first, as in the broker"
    assert names(capsys, sort="-messages") == ["b", "a", "c"]
    assert names(capsys, sort="durable,-name", limit=2) == ["a", "c"]
    assert names(capsys, limit=0) == []


def test_columns_are_fields_by_path_and_computed_ones(capsys: pytest.CaptureFixture[str]) -> None:
    print_list(ITEMS[:1], COLUMNS, shown(columns="state,gate.open,message_stats.ack"))
    assert json.loads(capsys.readouterr().out) == {"state": "open", "gate.open": True, "message_stats.ack": None}
    assert value_of({"a.b": 1, "a": {"b": 2}}, "a.b", COLUMNS) == 1, "a field with a dot in its name comes first"


def test_unknown_column_is_refused_with_near_names(capsys: pytest.CaptureFixture[str]) -> None:
    for options in ({"columns": "massages"}, {"sort": "-massages"}, {"filters": ("massages>1",)}):
        with pytest.raises(click.UsageError, match=r"no column 'massages'; did you mean messages\? Known are .*, name"):
            print_list(ITEMS, COLUMNS, shown(**options))  # type: ignore[arg-type]
    print_list([], COLUMNS, shown(columns="massages"))
    assert capsys.readouterr().out == "", "of an empty list nobody knows the fields"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("messages", "is no test"),
        ("=1", "is no test"),
        ("name~(", "expression is invalid"),
        ("messages>x", "no number"),
    ],
)
def test_invalid_filter_is_an_invalid_command_line(text: str, says: str) -> None:
    with pytest.raises(click.UsageError, match=says):
        condition(text)
    assert condition("rate >= 1_000") == Condition("rate", ">=", "1_000")


def test_list_of_a_broker_has_these_options(broker: BrokerProcess) -> None:
    prefix = some_name("listed")
    for number in range(3):
        run(broker, "declare", "queue", f"{prefix}.{number}", "capacity-messages=10", "x-single-active-consumer=true")
    run(broker, "publish", f"{prefix}.1", "x", "y")
    mine = ("--filter", f"name~^{prefix}")
    said = run(broker, "list", "queues", *mine, "--sort", "-fill,name", "--columns", "name,fill,penstock.tail")
    rows = [line.split() for line in said.splitlines()]
    assert rows == [
        ["name", "fill", "penstock.tail"],
        [f"{prefix}.1", "20", "%", "2"],
        [f"{prefix}.0", "0", "%", "0"],
        [f"{prefix}.2", "0", "%", "0"],
    ]
    said = run(broker, "list", "queues", *mine, "--limit", "1", "--columns", "arguments")
    assert said.split() == ["arguments", "capacity-messages=10", "x-single-active-consumer=true"]
    only = run(broker, "list", "queues", *mine, "--sort", "-messages", "--limit", "1", "--json", "--columns", "name")
    assert json.loads(only) == {"name": f"{prefix}.1"}
    for option in ("--columns", "--sort"):
        wrong = run(broker, "list", "queues", option, "nam", code=2)
        assert "no column 'nam'; did you mean name" in wrong
        assert "Known are arguments, auto_delete" in wrong
    assert "Known are " in run(broker, "users", "list", "--sort", "nobody", code=2)
    assert run(broker, "users", "list", "--columns", "user", "--limit", "1").splitlines() == ["user", "guest"]
    assert "hold-deadline" in run(broker, "show", "queue", f"{prefix}.1", "--filter", "setting~deadline")


LISTED = Columns(
    ("name", "fill", "state"),
    {"fill": "penstock.fill_percent", "state": lambda item: "open"},
    texts={"fill": str},
)


@pytest.mark.parametrize(
    ("options", "asked", "left"),
    [
        ({}, {}, {}),
        ({"sort": "-fill,name"}, {"sort": ["-penstock.fill_percent", "name"]}, {"sort": ()}),
        ({"sort": "state,-fill"}, {}, {}),
        ({"filters": ("fill>5", "a.b~^x")}, {"filters": ["penstock.fill_percent>5", "a.b~^x"]}, {"filters": ()}),
        ({"filters": ("fill=5 %",)}, {}, {}),
        (
            {"filters": ("state!=open", "name=a"), "limit": 5},
            {"filters": ["name=a"]},
            {"filters": (condition("state!=open"),)},
        ),
        ({"sort": "name", "limit": 5}, {"sort": ["name"], "page": 1, "page_size": 5}, {"sort": ()}),
        ({"sort": "state", "limit": 5}, {}, {}),
        ({"limit": 0}, {}, {}),
        ({"limit": 501}, {}, {}),
    ],
)
def test_broker_is_asked_for_what_it_knows_of_a_list(
    options: dict[str, Any], asked: dict[str, object], left: dict[str, Any]
) -> None:
    wanted = shown(**options)
    share = share_of(LISTED, wanted)
    assert share.asked == asked
    assert share.left == wanted._replace(**left)


def test_list_of_the_command_line_is_that_of_http(tmp_path: Path) -> None:
    prefix = some_name("order")
    with serving(tmp_path, "--http", "127.0.0.1:0") as broker:
        web = Web(broker.http)
        for number in (3, 1, 2):
            run(broker, "declare", "queue", f"{prefix}.{number}", "capacity-messages=10")
        run(broker, "publish", f"{prefix}.2", "x", "y")
        for sort, query in (
            ("messages", "sort=messages"),
            ("-messages", "sort=messages&sort_reverse=true"),
            ("penstock.fill_percent", "sort=penstock.fill_percent"),
            ("policy", "sort=policy"),
            ("name", ""),
            ("-name", "sort=name&sort_reverse=true"),
        ):
            said = run(
                broker, "list", "queues", "--filter", f"name~{prefix}", "--sort", sort, "--columns", "name", "--json"
            )
            names = [json.loads(line)["name"] for line in said.splitlines()]
            page = web.get(f"/queues/%2F?page=1&name={prefix}&{query}")
            whole = [row["name"] for row in web.get(f"/queues/%2F?{query}")]
            assert names == [row["name"] for row in page["items"]] == [name for name in whole if prefix in name], sort
            assert len(names) == 3


def test_list_that_is_limited_says_how_many_there_are(broker: BrokerProcess) -> None:
    prefix = some_name("limited")
    for number in range(3):
        run(broker, "declare", "queue", f"{prefix}.{number}")
    words = ("list", "queues", "--filter", f"name~{prefix}", "--limit", "2", "--columns", "name")
    done = penstock_command(*words, "--url", broker.url)
    assert done.stdout.split() == ["name", f"{prefix}.0", f"{prefix}.1"]
    assert done.stderr == "2 of 3 are shown\n"
    wrong = run(broker, "list", "queues", "--filter", "massages>1", code=2)
    assert "no column 'massages'; did you mean messages" in wrong
