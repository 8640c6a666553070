"""A noun is its rows: with two files it is on every plane, and without them on none."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator

import pytest
from click.testing import CliRunner

import penstock
from penstock.cli import grammar
from penstock.client.errors import ControlError
from tests.support.brokers import in_process
from tests.support.http_client import Web
from tests.support.toy_commands import COMMANDS, NOUN
from tests.support.toys import Toy, toys_of

SIZES = {"doll": 30, "ball": 9, "bear": 30, "car": 12}


@pytest.fixture
async def toys() -> AsyncIterator[penstock.Broker]:
    """A broker with the toy noun, and a user without the tags that the noun needs."""
    broker = in_process(http="127.0.0.1:0")
    broker.driver.control.add(toys_of({name: Toy(name, size) for name, size in SIZES.items()}))
    async with broker:
        web = Web(broker.http_url)
        await asyncio.to_thread(web.do, "PUT", "/users/anna", {"password": "a", "tags": "management"}, status=201)
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        await asyncio.to_thread(web.do, "PUT", "/permissions/%2F/anna", everything, status=201)
        yield broker


@pytest.fixture
def commands() -> Iterator[None]:
    """The toy noun at the command line."""
    grammar.add_noun("toys", NOUN, COMMANDS)
    yield
    grammar.drop_noun("toys")


async def command(*words: str, code: int = 0) -> str:
    """Return what a command prints."""
    done = await asyncio.to_thread(CliRunner().invoke, grammar.main, words)
    assert done.exit_code == code, done.output
    return done.output


async def test_added_noun_is_listed_and_shown_by_every_plane(toys: penstock.Broker, commands: None) -> None:
    web, by_size = Web(toys.http_url), ["car", "doll", "bear", "ball"]
    in_order = {"name": ["ball", "bear", "car", "doll"], "-size": ["bear", "doll", "car", "ball"]}
    assert sorted(by_size) == in_order["name"]
    async with penstock.connect(toys.url) as client:
        for sort, names in in_order.items():
            query = f"sort={sort.removeprefix('-')}&sort_reverse={str(sort.startswith('-')).lower()}"
            whole = await asyncio.to_thread(web.get, f"/toys?{query}")
            assert whole == [{"name": name, "size": SIZES[name]} for name in names]
            page = await asyncio.to_thread(web.get, f"/toys?page=2&page_size=3&{query}&columns=name")
            assert (page["items"], page["page_count"]) == ([{"name": names[-1]}], 2)
            found = await client.request("list", kind="toys", sort=[sort])
            assert found == {"items": whole, "next": None}
            said = await command("toys", "list", "--sort", sort, "--json", "--url", toys.url)
            assert [json.loads(line) for line in said.splitlines()] == whole
        assert await asyncio.to_thread(web.get, "/toys") == await asyncio.to_thread(web.get, "/toys?sort=name")
        assert await asyncio.to_thread(web.get, "/toys/bear") == {"name": "bear", "size": 30}
        found = await client.request("list", kind="toys", filters=["size>9"], named="AR")
        assert [row["name"] for row in found["items"]] == ["bear", "car"]
    for words in (("--help",), ("toys", "--help"), ("toys", "list", "--help")):
        assert "toys" in await command(*words)
    assert await command("toys", "declare", "duck", "--size", "7", "--url", toys.url) == "toy duck is there\n"
    assert (await asyncio.to_thread(web.get, "/toys/duck"))["size"] == 7


async def test_added_noun_has_its_rights_and_its_audit_on_every_plane(toys: penstock.Broker) -> None:
    driver, web = toys.driver, Web(toys.http_url)
    driver.audit.enable(1 << 20)
    anna = Web(toys.http_url, "anna", "a")
    assert len(await asyncio.to_thread(anna.get, "/toys")) == len(SIZES)
    refused = await asyncio.to_thread(anna.ask, "PUT", "/toys/top", {"size": 5})
    assert (refused.status, refused.reason) == (401, "User not authorised to access object")
    async with penstock.connect(toys.url, user="anna", password="a") as client:
        with pytest.raises(ControlError, match=r"toy.declare.*policymaker") as raised:
            await client.request("toy.declare", name="top", size=5)
        assert raised.value.code == 403
    await asyncio.to_thread(web.do, "PUT", "/toys/top", {"size": 5}, status=201)
    async with penstock.connect(toys.url) as client:
        assert await client.request("toy.declare", name="top", size=6) == {"created": False}
        with pytest.raises(ControlError, match="no field 'sise'; did you mean size"):
            await client.request("toy.declare", name="top", sise=6)
    assert (await asyncio.to_thread(web.ask, "PUT", "/toys/top", {})).status == 400
    told = [each for each in driver.audit.take() if not str(each["event"]).startswith("log")]
    assert [(each["event"], each["user"], each["operation"]) for each in told] == [
        ("access-refused", "anna", "PUT /toys/{name}"),
        ("access-refused", "anna", "toy.declare"),
        ("change", "guest", "PUT /toys/{name}"),
        ("change", "guest", "toy.declare"),
    ]
    changed = [
        (each["subject"], each.get("before"), json.loads(str(each["after"]))) for each in told if "after" in each
    ]
    assert changed[0] == ("top", None, {"size": 5})
    assert json.loads(str(changed[1][1])) == {"name": "top", "size": 5}
    assert changed[1][2] == {"name": "top", "size": 6}


async def test_added_noun_is_in_definitions(toys: penstock.Broker) -> None:
    web = Web(toys.http_url)
    exported = await asyncio.to_thread(web.get, "/definitions")
    assert exported["toys"] == [{"name": name, "size": size} for name, size in SIZES.items()]
    assert "toys" not in await asyncio.to_thread(web.get, "/definitions/%2F")
    definitions = {"toys": [{"name": "kite", "size": 80}, {"name": "car", "size": 13}]}
    tried = await asyncio.to_thread(web.do, "POST", "/definitions?dry_run=true", definitions, status=200)
    assert [(each["subject"], each["change"]) for each in tried.json["differences"]] == [
        ("toy 'car'", "changed"), ("toy 'kite'", "created"),
    ]  # fmt: skip
    await asyncio.to_thread(web.do, "POST", "/definitions", definitions, status=204)
    assert [(await asyncio.to_thread(web.get, f"/toys/{name}"))["size"] for name in ("kite", "car")] == [80, 13]
    async with penstock.connect(toys.url) as client:
        page = await client.request("definitions.export", section="toys", everywhere=True)
        assert {"name": "kite", "size": 80} in page["items"]
        both = {"toys": [{"name": "drum", "size": 4}], "queues": [{"name": "q", "vhost": "none", "durable": True,
                "auto_delete": False, "arguments": {}}]}  # fmt: skip
        with pytest.raises(ControlError, match="vhost 'none'"):
            await client.request("definitions.import", definitions=json.dumps(both), everywhere=True)
    assert (await asyncio.to_thread(web.ask, "GET", "/toys/drum")).status == 404


async def test_noun_without_its_rows_is_on_no_plane() -> None:
    async with in_process(http="127.0.0.1:0") as broker:
        web = Web(broker.http_url)
        assert (await asyncio.to_thread(web.ask, "GET", "/toys")).status == 404
        assert "toys" not in await asyncio.to_thread(web.get, "/definitions")
        async with penstock.connect(broker.url) as client:
            with pytest.raises(ControlError, match="'kind' must be one of queues"):
                await client.request("list", kind="toys")
            with pytest.raises(ControlError, match=r"no control operation .toy\.declare."):
                await client.request("toy.declare", name="top", size=5)
        assert "no command 'toys'" in await command("toys", "list", code=2)
