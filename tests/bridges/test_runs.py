"""Bridges that run for ever: ends that are lost, silent, full, gone or unwilling, and what is said of each.

The scenarios have the names of reports about the bridges of other brokers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.bridges import carrier, runs
from penstock.bridges.dialing import HEARTBEAT_S
from penstock.bridges.plans import LOOK_S
from penstock.bridges.runs import secrets_of
from tests.support.bridge_house import BridgeHouse, RunningBridge, emptied, filled, house, seen
from tests.support.brokers import PATIENCE
from tests.support.certificates import localhost, serving_tls
from tests.support.tcp_proxy import Proxy, proxied

SECRET = "se%63ret-pass"


@pytest.fixture
async def here() -> AsyncIterator[BridgeHouse]:
    async with house() as found:
        yield found


@pytest.fixture
async def there() -> AsyncIterator[BridgeHouse]:
    async with house() as found:
        yield found


@contextmanager
def before(found: BridgeHouse) -> Iterator[Proxy]:
    """A proxy before a broker."""
    host, port = found.broker.addresses[0]
    with proxied(f"{host}:{port}") as proxy:
        yield proxy


def shovel(here: BridgeHouse, source: str, target: str, **keys: Any) -> dict[str, Any]:
    given = {name.replace("_", "-"): value for name, value in keys.items()}
    ends = {"src-uri": source, "src-queue": "a", "dest-uri": target, "dest-queue": "b", "reconnect-delay": 0.05}
    return here.spec("shovel", ends | given)


def url_of(proxy: Proxy) -> str:
    return f"amqp://guest:guest@{proxy.address}/"


async def moves(bridge: RunningBridge, url: str, number: int) -> None:
    """Publish one message more to the source, and wait until it is carried."""
    done = bridge.last["carried"]
    await filled(url, "a", 1, number)
    await seen(lambda: bridge.last["carried"] > done, "a message more")


# 1: a bridge that says it runs and moves nothing


def test_silence_and_its_report_take_less_than_five_seconds() -> None:
    assert 2 * HEARTBEAT_S * carrier.SILENT + LOOK_S < 5


@pytest.mark.parametrize("end", ["source", "target"])
@pytest.mark.parametrize("step", ["refused", "login", "declaration", "idle"])
async def test_bridge_cut_at_a_step_of_its_life_says_why_and_moves(
    here: BridgeHouse, there: BridgeHouse, end: str, step: str
) -> None:
    await filled(here.url, "a", 0)
    with before(here if end == "source" else there) as proxy:
        ends = (url_of(proxy), there.url) if end == "source" else ("amqp://", url_of(proxy))
        proxy.down = step == "refused"
        proxy.loses_answer = step == "login"
        async with here.running(shovel(here, *ends)) as bridge:
            if step == "idle":
                await seen(lambda: bridge.last["state"] == "idle")
                proxy.cut()
            elif step == "declaration":
                await seen(lambda: proxy.octets[1] > 0, "an answer to the login")
                proxy.cut()
            await seen(lambda: any("; tried again in 0." in row["reason"] for row in bridge.reports), "the reason")
            said = next(row["reason"] for row in bridge.reports if row["state"] == "away")
            assert said.startswith(f"the {end}")
            proxy.down = False
            await moves(bridge, here.url, 1)
            await seen(lambda: bridge.last["state"] in ("moving", "idle"))


@pytest.mark.parametrize("end", ["source", "target"])
@pytest.mark.parametrize("step", ["idle", "moving"])
async def test_bridge_with_a_silent_end_says_so_and_moves_over_another_connection(
    here: BridgeHouse, there: BridgeHouse, end: str, step: str
) -> None:
    await filled(here.url, "a", 0)
    with before(here if end == "source" else there) as proxy:
        ends = (url_of(proxy), there.url) if end == "source" else ("amqp://", url_of(proxy))
        async with here.running(shovel(here, *ends)) as bridge:
            await seen(lambda: bridge.last["state"] == "idle")
            if step == "moving":
                await moves(bridge, here.url, 1)
            proxy.forget()
            await filled(here.url, "a", 1, 2)
            await seen(lambda: bridge.last["state"] == "away", "the reason")
            assert bridge.last["reason"].startswith(f"the {end} is away: nothing has come for ")
            await moves(bridge, here.url, 3)
            await seen(lambda: here.depth("a") == 0, "all messages")


async def test_bridge_whose_login_is_not_answered_says_so(here: BridgeHouse, there: BridgeHouse) -> None:
    with before(there) as proxy:
        proxy.swallows = True
        async with here.running(shovel(here, "amqp://", url_of(proxy) + "?connection_timeout=500")) as bridge:
            await seen(lambda: bridge.last["state"] == "away")
            assert "no answer within 0.5 s" in bridge.last["reason"]
            proxy.swallows = False
            await moves(bridge, here.url, 1)


# 2: no delivery settled by a tag of an older channel


@pytest.mark.parametrize("protocol", ["amqp091", "amqp10"])
async def test_delivery_is_not_settled_by_a_tag_of_an_older_channel(
    here: BridgeHouse, there: BridgeHouse, protocol: str
) -> None:
    count = 3_000
    await filled(there.url, "b", 0)
    with before(here) as source, before(there) as target:
        place = {"src-protocol": protocol, "dest-protocol": protocol}
        places = {"src-address": "a", "dest-address": "b"} if protocol == "amqp10" else {}
        spec = shovel(here, url_of(source), url_of(target))
        spec["value"] |= {**place, **places, "reconnect-delay": 0.01, "src-prefetch-count": 100}
        await filled(here.url, "a", 0)
        async with here.running(spec) as bridge:
            await seen(lambda: bridge.last["state"] == "idle")
            for number in range(20):
                await filled(here.url, "a", count // 20, number * (count // 20))
                (source if number % 2 else target).cut()
            await seen(lambda: here.depth("a") == 0, "all messages")
    found = await emptied(there.url, "b")
    assert set(found) == set(range(count))
    assert len(found) - count <= 20 * 100


async def test_bridge_paused_a_hundred_times_loses_and_doubles_nothing(here: BridgeHouse, there: BridgeHouse) -> None:
    await filled(here.url, "a", 2_000)
    spec = shovel(here, "amqp://", there.url, src_prefetch_count=10)
    for number in range(100):
        async with here.running(spec) as bridge:
            if number % 4 == 0:
                await seen(lambda: there.has("b"))
            if number % 4 == 2:
                await seen(lambda: bridge.last["state"] in ("moving", "idle"))
    async with here.running(spec) as bridge:
        await seen(lambda: here.depth("a") == 0, "all messages")
    assert await emptied(there.url, "b") == list(range(2_000))


# 3: a source behind a slow target


async def test_source_behind_a_slow_target_is_held_with_its_producers(here: BridgeHouse, there: BridgeHouse) -> None:
    async with penstock.connect(here.url) as connection, penstock.connect(there.url) as other:
        await connection.declare_queue("a", capacity_messages=50)
        await other.declare_queue("b", capacity_messages=10)
        async with here.running(shovel(here, "amqp://", there.url, src_prefetch_count=20)) as bridge:
            publisher = connection.publisher("a", window=10)
            with pytest.raises((penstock.FlowControlTimeout, penstock.ConfirmTimeout)):
                await publisher.send_many((b"%d" % number for number in range(1_000)), timeout=3)
            await seen(lambda: bridge.last["state"] == "held")
            assert "queue b" in bridge.last["reason"]
            assert (here.depth("a") <= 50, there.depth("b") <= 10) == (True, True)
            await seen(lambda: bridge.last["why"], "the words of the target")
            assert "queue b" in bridge.last["why"][0]
            async with other.receiver("b", prefetch=1) as receiver:
                for number in range(40):
                    delivery = await receiver.receive(PATIENCE)
                    assert delivery is not None
                    assert int(delivery.body) == number
                    delivery.accept()


# Targets that do not take


async def test_refused_messages_go_on_when_the_target_takes_them(here: BridgeHouse, there: BridgeHouse) -> None:
    async with penstock.connect(there.url) as connection:
        await connection.declare_queue("b", capacity_messages=5, overflow="reject")
    await filled(here.url, "a", 20)
    found: list[int] = []
    async with here.running(shovel(here, "amqp://", there.url)) as bridge:
        await seen(lambda: bridge.last["state"] == "refused")
        assert bridge.last["reason"].startswith("queue b of amqp://127.0.0.1:")
        assert bridge.last["why"]
        assert here.depth("a") == 15
        while len(found) < 20:
            found += await emptied(there.url, "b")
            await asyncio.sleep(0.05)
    assert sorted(found) == list(range(20))


async def test_message_that_reaches_no_queue_stays_at_the_source(here: BridgeHouse, there: BridgeHouse) -> None:
    spec = shovel(here, "amqp://", there.url)
    del spec["value"]["dest-queue"]
    spec["value"] |= {"dest-exchange": "amq.direct", "dest-exchange-key": "nobody"}
    await filled(here.url, "a", 3)
    async with here.running(spec) as bridge:
        await seen(lambda: bridge.last["state"] == "refused")
        assert "exchange amq.direct with key nobody" in bridge.last["reason"]
        assert "NO_ROUTE" in bridge.last["reason"]
    assert here.depth("a") == 3


async def test_target_that_is_deleted_is_declared_again(here: BridgeHouse, there: BridgeHouse) -> None:
    async with here.running(shovel(here, "amqp://", there.url)) as bridge:
        await moves_when_open(bridge, here)
        async with penstock.connect(there.url) as connection:
            await connection.delete_queue("b")
        await filled(here.url, "a", 1)
        await seen(lambda: there.has("b"), "the queue again")
        await seen(lambda: bridge.last["carried"] == 2)


async def moves_when_open(bridge: RunningBridge, here: BridgeHouse) -> None:
    await seen(lambda: bridge.last["state"] == "idle")
    await moves(bridge, here.url, 0)


async def test_exchange_that_is_not_there_is_named(here: BridgeHouse, there: BridgeHouse) -> None:
    spec = shovel(here, "amqp://", there.url, dest_exchange="missing")
    del spec["value"]["dest-queue"]
    await filled(here.url, "a", 1)
    async with here.running(spec) as bridge:
        await seen(lambda: bridge.last["state"] == "away")
        assert "no exchange 'missing'" in bridge.last["reason"]
    assert here.depth("a") == 1


async def test_target_that_closes_with_each_message_is_tried_with_pauses(here: BridgeHouse, there: BridgeHouse) -> None:
    await filled(there.url, "b", 0)
    await filled(here.url, "a", 1)
    with before(there) as proxy:
        async with here.running(shovel(here, "amqp://", url_of(proxy), reconnect_delay=0.2)) as bridge:
            for number in range(3):
                await seen(lambda least=number: proxy.accepted > least, "another connection")
                proxy.cut()
            await seen(lambda: bridge.last["carried"] >= 1)
        assert here.depth("a") == 0


async def test_wrong_password_costs_one_login_a_pause_and_is_told_nowhere(
    here: BridgeHouse, there: BridgeHouse, caplog: pytest.LogCaptureFixture
) -> None:
    with before(there) as proxy:
        target = f"amqp://shop:{SECRET}@{proxy.address}/"
        async with here.running(shovel(here, "amqp://", target, reconnect_delay=3600)) as bridge:
            await seen(lambda: bridge.last["state"] == "away")
            assert "the broker refuses shop" in bridge.last["reason"]
            await seen(lambda: bridge.last["state"] == "away")
            assert proxy.accepted == 1
    assert not [text for text in (SECRET, "secret-pass") if text in f"{bridge.reports}{caplog.text}"]


@pytest.mark.parametrize(
    "target",
    [
        f"amqp://shop:{SECRET}@127.0.0.1:1/", f"amqps://shop:{SECRET}@127.0.0.1:1/?cacertfile=/none",
        f"amqp://shop:{SECRET}@nowhere.invalid/", f"amqp://shop:{SECRET}@127.0.0.1/?colour=red",
        f"amqp://shop:{SECRET}@127.0.0.1:port/", f"amqps://127.0.0.1/?password={SECRET}&certfile=/none",
    ],
)  # fmt: skip
async def test_password_is_in_no_report_of_an_error(here: BridgeHouse, target: str) -> None:
    async with here.running(shovel(here, "amqp://", target)) as bridge:
        await seen(lambda: bridge.last["state"] in ("away", "refused"))
    assert not [text for text in (SECRET, "secret-pass") if text in str(bridge.reports)]


def test_secrets_of_a_definition_are_found_as_written_and_as_meant() -> None:
    value = {
        "src-uri": ["amqp://u:p%40ss@h/", "amqp://"],
        "dest-uri": "amqps://h/?password=key-word",
        "dest-queue": "q",
    }
    assert secrets_of(value) == ["key-word", "p%40ss", "p@ss"]


# Sources


async def test_source_that_is_deleted_and_declared_anew_is_carried_on(here: BridgeHouse, there: BridgeHouse) -> None:
    async with here.running(shovel(here, "amqp://", there.url)) as bridge:
        await moves_when_open(bridge, here)
        async with penstock.connect(here.url) as connection:
            await connection.delete_queue("a")
        await seen(lambda: "away" in bridge.states)
        await seen(lambda: here.has("a"), "the queue again")
        await moves(bridge, here.url, 1)


async def test_bridge_of_a_user_without_rights_says_which_is_missing(here: BridgeHouse, there: BridgeHouse) -> None:
    here.broker.driver.broker.access.put_user("ada", None, [])
    spec = shovel(here, "amqp://", there.url)
    spec["run_as"] = "ada"
    async with here.running(spec) as bridge:
        await seen(lambda: bridge.last["state"] == "away")
        assert "the source cannot be reached" in bridge.last["reason"]
        assert "ada" in bridge.last["reason"]


@pytest.mark.parametrize("component", ["shovel", "bridge"])
async def test_queue_is_not_carried_onto_itself_by_a_bridge(here: BridgeHouse, component: str) -> None:
    ends = {"source": "amqp:///?queue=a", "target": "amqp:///?queue=a"}
    spec = here.spec("bridge", ends) if component == "bridge" else shovel(here, "amqp://", "amqp://", dest_queue="a")
    async with here.running(spec) as bridge:
        await seen(lambda: bridge.last["state"] == "refused")
        assert "queue a of this broker would be carried onto itself" in bridge.last["reason"]


async def test_ring_of_bridges_ends_by_max_hops(here: BridgeHouse) -> None:
    terms = {"forward-headers": True, "max-hops": 2}
    await filled(here.url, "b", 0)
    await filled(here.url, "a", 5)
    there_ = here.spec("bridge", {"source": "amqp:///?queue=a", "target": "amqp:///?queue=b", **terms})
    back = here.spec("bridge", {"source": "amqp:///?queue=b", "target": "amqp:///?queue=a", **terms})
    async with here.running(there_) as one, here.running(back) as other:
        await seen(lambda: "refused" in (one.last["state"], other.last["state"]))
        said = one.last["reason"] or other.last["reason"]
        assert "it has come through 2 bridges; max-hops is 2" in said
        await seen(lambda: one.last["carried"] + other.last["carried"] == 10)


async def test_reconnect_delay_of_nothing_means_no_other_attempt(here: BridgeHouse) -> None:
    spec = shovel(here, "amqp://", "amqp://127.0.0.1:1", reconnect_delay=0)
    async with here.running(spec) as bridge:
        await seen(lambda: bridge.last["state"] == "away")
        assert "not tried again, because reconnect-delay is 0" in bridge.last["reason"]


async def test_error_of_the_worker_names_its_kind_and_place(
    here: BridgeHouse, there: BridgeHouse, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def make(*words: object) -> None:
        raise ZeroDivisionError(SECRET)

    plan = runs.Plan(make, 0.05, "a", "b")  # type: ignore[arg-type]
    monkeypatch.setattr(runs, "plan_of", lambda *words: plan)
    async with here.running(shovel(here, "amqp://", there.url)) as bridge:
        await seen(lambda: bridge.last["state"] == "away")
        assert "an error of the worker: ZeroDivisionError at test_error_of_the" in bridge.last["reason"]
    assert SECRET not in f"{bridge.reports}{caplog.text}"


async def test_definition_at_which_the_worker_fails_is_refused(here: BridgeHouse, there: BridgeHouse) -> None:
    spec = here.spec("federation", {"uri": there.url})  # Its link is missing.
    async with here.running(spec) as bridge:
        await seen(lambda: bridge.last["state"] == "refused")
        assert "the definition cannot be used: an error of the worker: KeyError at terms_of" in bridge.last["reason"]


async def test_target_that_changes_its_certificate_is_not_trusted(here: BridgeHouse, tmp_path: Path) -> None:
    trusted = localhost(tmp_path)
    folder = tmp_path / "other"
    folder.mkdir()
    other = localhost(folder)
    with serving_tls(tmp_path) as there:
        target = f"amqps://guest:guest@localhost:{there.tls_port}/?cacertfile={trusted.ca}"
        async with here.running(shovel(here, "amqp://", target)) as bridge:
            await moves_when_open(bridge, here)
            kept = {name: (tmp_path / name).read_bytes() for name in ("server.pem", "server-key.pem")}
            for name in kept:
                (other.folder / name).replace(tmp_path / name)
            there.command("tls", "reload")
            there.command("connections", "close", "Shovel test")
            await seen(lambda: "its certificate is not trusted" in bridge.last["reason"])
            assert bridge.last["state"] == "away"
            for name, octets in kept.items():
                (tmp_path / name).write_bytes(octets)
            there.command("tls", "reload")
            await moves(bridge, here.url, 1)
