"""Imports of definitions over HTTP: in slices, and undone on failure."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import quote

from penstock.flow.work import SHARE
from penstock.operations.definitions_kinds import ENTRY_WORK
from penstock.operations.definitions_parser import ENTRIES_MOST
from penstock.sync import connect
from tests.support.brokers import BrokerProcess, in_process
from tests.support.http_client import Web
from tests.support.loop_steps import steps_of

QUEUES = [{"vhost": "/", "name": f"q{number}"} for number in range(3000)]
AT_ONCE = SHARE // ENTRY_WORK + 1
"""The most entries of a turn."""


def topology(**more: Any) -> bytes:
    return json.dumps({"queues": QUEUES, **more}).encode()


async def test_import_creates_queues_in_slices_beside_other_imports() -> None:
    async with in_process(http="127.0.0.1:0") as broker:
        web = Web(broker.http_url)
        queues = broker.driver.broker.vhosts["/"].queues
        post = lambda: web.do("POST", "/definitions", topology())  # noqa: E731
        steps = await steps_of(lambda: len(queues), post, post, post)
        assert len(queues) == len(QUEUES)
        assert max(steps) <= AT_ONCE


async def test_import_over_amqp_is_cut_as_well_and_is_answered_at_its_end() -> None:
    async with in_process() as broker:
        queues = broker.driver.broker.vhosts["/"].queues
        answers: list[dict[str, Any]] = []

        def ask() -> None:
            with connect(broker.url, protocol="amqp091") as control:
                answers.append(control.import_definitions(topology().decode()))

        steps = await steps_of(lambda: len(queues), ask)
        assert [answer["made"] for answer in answers] == [{"queues": len(QUEUES)}]
        assert max(steps) <= AT_ONCE


async def test_failed_import_is_undone_in_slices() -> None:
    async with in_process(http="127.0.0.1:0") as broker:
        web = Web(broker.http_url)
        queues = broker.driver.broker.vhosts["/"].queues
        broken = topology(bindings=[{"vhost": "/", "source": "none", "destination": "q1", "destination_type": "queue"}])
        steps = await steps_of(lambda: len(queues), lambda: web.do("POST", "/definitions", broken, status=400))
        assert len(queues) == 0
        assert min(steps) >= -AT_ONCE


async def test_queue_that_has_messages_when_an_import_fails_stays_and_is_named() -> None:
    async with in_process(http="127.0.0.1:0") as broker:
        web = Web(broker.http_url)
        queues = broker.driver.broker.vhosts["/"].queues
        broken = topology(bindings=[{"vhost": "/", "source": "none", "destination": "q1", "destination_type": "queue"}])
        asked = asyncio.ensure_future(asyncio.to_thread(web.ask, "POST", "/definitions", broken))
        while "q0" not in queues:  # noqa: ASYNC110 - a pass of the loop is what is meant.
            await asyncio.sleep(0)
        assert len(queues) < len(QUEUES)
        published = await asyncio.to_thread(web.publish, "q0", "kept")
        answer = await asked
        assert answer.status == 400
        if published.json == {"routed": True} and "q0" in queues:
            assert answer.reason.endswith("undone, except for items in use: queue 'q0'")
            assert [each["payload"] for each in await asyncio.to_thread(web.take, "q0")] == ["kept"]
            assert list(queues) == ["q0"]


def test_imports_of_19_000_queues_are_made_and_more_than_20_000_objects_refused(
    served: BrokerProcess, web: Web
) -> None:
    name = "imported-many"
    web.do("PUT", f"/vhosts/{name}", status=201)
    many = [{"vhost": name, "name": f"q{number}"} for number in range(ENTRIES_MOST + 1)]
    refused = web.ask("POST", "/definitions", {"queues": many})
    assert (refused.status, "20,001 objects" in refused.reason) == (400, True)
    web.do("POST", "/definitions", {"queues": many[:19_000]})
    assert web.get(f"/queues/{name}?page=1&page_size=1")["total_count"] == 19_000
    web.do("DELETE", f"/vhosts/{name}")


def test_import_with_options_reports_created_and_skipped_entries(web: Web) -> None:
    name = "imported,with:options"
    exchange = {"vhost": "/", "name": name, "type": "x-delayed-message"}
    binding = {"vhost": "/", "source": name, "destination": name, "destination_type": "queue"}
    file = {"exchanges": [exchange], "queues": [{"vhost": "/", "name": name}], "bindings": [binding]}
    web.do("POST", "/definitions", file, 400)
    skip = f"/definitions?skip=policies,users&skip={quote(f'exchange:{name}')}"
    told = web.do("POST", f"{skip}&dry_run=true", file, 200).json
    assert [each["change"] for each in told["differences"]] == ["skipped", "skipped", "created"]
    answer = web.do("POST", skip, file, 200).json
    assert answer["made"] == {"queues": 1}
    assert [(each["line"], each["kind"], each["reason"]) for each in answer["skipped"]] == [
        (1, "exchanges", "as asked"),
        (1, "bindings", f"exchange '{name}' in vhost '/' is skipped"),
    ]
    answer = web.do("POST", "/definitions?skip_refused=true", file, 200).json
    assert (answer["made"], len(answer["skipped"])) == ({}, 2)
    web.do("DELETE", f"/queues/%2F/{quote(name)}")


async def test_invalid_entries_of_an_import_are_listed_in_slices() -> None:
    file = b'{"queues": [' + b",\n".join([b'{"name": 7, "x": [[[[]]]]}'] * ENTRIES_MOST) + b"]}"
    async with in_process(http="127.0.0.1:0") as broker:
        web = Web(broker.http_url)
        answer = await asyncio.to_thread(web.do, "POST", "/definitions?skip_refused=true", file, 200)
        skipped = answer.json["skipped"]
        assert [each["line"] for each in skipped] == list(range(1, ENTRIES_MOST + 1))
        assert skipped[0]["subject"] == "queues[0].name"


def test_second_import_of_the_same_changes_nothing(web: Web) -> None:
    queues = {"queues": QUEUES[:3]}
    web.do("POST", "/definitions", queues)
    before = web.get("/definitions/%2F")
    assert {"q0", "q1", "q2"} <= {queue["name"] for queue in before["queues"]}
    told = web.do("POST", "/definitions?dry_run=true", queues, status=200).json
    assert (told["differences"], told["unchanged"]) == ([], {"queues": 3})
    web.do("POST", "/definitions", queues)
    assert web.get("/definitions/%2F") == before


async def test_names_and_arguments_that_no_client_can_be_sent_are_refused_with_their_place() -> None:
    async with in_process(http="127.0.0.1:0") as broker:
        web = Web(broker.http_url)

        def refused(**section: Any) -> str:
            return str(web.do("POST", "/definitions", json.dumps(section).encode(), status=400).json["reason"])

        def go() -> None:
            long = refused(queues=[{"vhost": "/", "name": "q" * 256}])
            assert "has 256 bytes; the most is 255" in long
            large = refused(queues=[{"vhost": "/", "name": "q", "arguments": {"x-max-priority": 1 << 64}}])
            assert "18446744073709551616 does not fit a signed integer of 64 bits" in large
            bound = {"vhost": "/", "source": "amq.topic", "destination": "q", "destination_type": "queue"}
            key = refused(queues=[{"vhost": "/", "name": "q"}], bindings=[{**bound, "routing_key": "k" * 256}])
            assert "routing key" in key
            assert broker.driver.broker.vhosts["/"].queues == {}

        await asyncio.to_thread(go)


def test_import_into_an_absent_vhost_or_from_a_form_is_refused(web: Web) -> None:
    assert web.ask("POST", "/definitions/none", {}).status == 404
    form = web.ask("POST", "/definitions", b"--x--", {"Content-Type": "multipart/form-data; boundary=x"})
    assert (form.status, form.reason) == (400, "definitions are read from a body in JSON, not from a form")
