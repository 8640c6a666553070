"""Web hook of alarms: what is posted and signed, repetitions, bounds, and a server that hangs or fails for long."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import queue
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.describe.table import Row
from penstock.errors import ConfigError, PreconditionFailed
from penstock.management.alarms import CLEARED, RAISED, AlarmChange, AlarmListener
from penstock.server import alarm_hook
from penstock.server.alarm_hook import (
    CHANGES_A_REQUEST,
    PAUSE_MOST_S,
    PENDING_MOST,
    SIGNATURE,
    TESTS_MOST,
    AlarmHook,
    context_of,
    signature,
)
from penstock.settings.config import Settings, load
from penstock.settings.file_tables import HookSettings
from tests.support.brokers import BrokerProcess, eventually, in_process, penstock_command, serving, settings_file
from tests.support.certificates import Authority
from tests.support.commands import run
from tests.support.hook_server import HookServer, hook_server


@pytest.fixture
def server() -> Iterator[HookServer]:
    with hook_server() as found:
        yield found


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let requests follow each other without pauses, of which these tests would wait for the end."""
    for name in ("GATHER_S", "APART_S", "PAUSE_S"):
        monkeypatch.setattr(alarm_hook, name, 0.01)


def at_once(action: Callable[[], None]) -> None:
    action()


@pytest.fixture
def hook(server: HookServer) -> Iterator[AlarmHook]:
    made = AlarmHook(HookSettings(server.url(), "s3cret"), "penstock@here", at_once)
    yield made
    server.may_answer.set()
    made.stop()


def change(subject: str = "queue a", what: str = RAISED) -> AlarmChange:
    return AlarmChange(
        what, ("gate", "/", subject), {"kind": "gate", "vhost": "/", "subject": subject}, 1_800_000_000.5
    )


def fates(hook: AlarmHook) -> tuple[int, int, int]:
    found = hook.fates()
    return found["sent"], found["merged"], found["dropped"]


def test_change_is_posted_as_json_with_a_signature_over_time_and_body(hook: AlarmHook, server: HookServer) -> None:
    hook.changed(change())
    path, headers, body = server.got.get(timeout=60)
    assert path == "/hook?token=hush"
    assert headers["Content-Type"] == "application/json"
    at, _, digest = headers[SIGNATURE].removeprefix("t=").partition(",v1=")
    assert digest == hmac.new(b"s3cret", f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    eventually(lambda: fates(hook) == (1, 0, 0), "the change counts as sent")


def test_fields_of_a_request_are_those_of_the_documentation(hook: AlarmHook, server: HookServer) -> None:
    hook.changed(change())
    fields = server.next()
    assert fields.keys() == {"id", "sent_at", "node", "version", "test", "dropped", "changes"}
    assert (fields["node"], fields["test"], fields["dropped"]) == ("penstock@here", False, 0)
    (one,) = fields["changes"]
    assert one.keys() == {"id", "change", "at", "alarm"}
    assert (one["change"], one["at"]) == ("raised", "2027-01-15T08:00:00.500+00:00")
    assert one["alarm"] == {"kind": "gate", "vhost": "/", "subject": "queue a"}


def test_hook_without_a_secret_sends_no_signature(server: HookServer) -> None:
    hook = AlarmHook(HookSettings(server.url()), "here", at_once)
    hook.changed(change())
    _, headers, _ = server.got.get(timeout=60)
    assert SIGNATURE not in headers
    hook.stop()


def test_failed_request_is_repeated_with_the_same_ids(
    hook: AlarmHook, server: HookServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "penstock")
    server.status = 500
    hook.changed(change())
    first, second = server.next(), server.next()
    assert first["id"] != second["id"]
    assert first["changes"] == second["changes"]
    view = hook.view()
    assert view["pending"] == 1
    server.status = 204
    server.answer = b""
    eventually(lambda: fates(hook) == (1, 0, 0), "the change counts as sent")
    told = [record.message for record in caplog.records if "web hook" in record.message]
    assert len(told) == 2
    assert told[0].endswith("takes none: it answered 500; it is tried again")
    assert "takes them again, after " in told[1]


def test_secrets_are_in_no_log_and_no_view(
    hook: AlarmHook, server: HookServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.status = 500
    hook.changed(change())
    server.next()
    server.next()
    shown = f"{hook.view()} {caplog.text} {hook!r} {HookSettings(server.url(), 's3cret')!r}"
    assert "s3cret" not in shown
    assert "hush" not in shown


def test_newer_change_of_an_alarm_replaces_the_unsent_one(hook: AlarmHook, server: HookServer) -> None:
    server.may_answer.clear()
    hook.changed(change("queue first"))
    server.next()
    hook.changed(change("queue a"))
    hook.changed(change("queue b"))
    hook.changed(change("queue a", CLEARED))
    server.may_answer.set()
    said = [(each["change"], each["alarm"]["subject"]) for each in server.next()["changes"]]
    assert said == [("raised", "queue b"), ("cleared", "queue a")]
    eventually(lambda: fates(hook) == (3, 1, 0), "all are sent")


def test_change_during_a_request_for_its_alarm_is_sent_afterwards(hook: AlarmHook, server: HookServer) -> None:
    server.may_answer.clear()
    hook.changed(change())
    assert [each["change"] for each in server.next()["changes"]] == ["raised"]
    hook.changed(change(what=CLEARED))
    server.may_answer.set()
    assert [each["change"] for each in server.next()["changes"]] == ["cleared"]


def test_hanging_server_costs_bounded_memory_and_tells_of_dropped_changes(hook: AlarmHook, server: HookServer) -> None:
    server.may_answer.clear()
    hook.changed(change("queue first"))
    server.next()
    for number in range(PENDING_MOST + 10):
        for what in (RAISED, CLEARED):
            hook.changed(change(f"queue {number}", what))
    view = hook.view()
    assert view["pending"] == PENDING_MOST
    assert view["dropped"] == 11
    assert [each.name for each in threading.enumerate()].count("penstock-alarm-hook") == 1
    server.may_answer.set()
    fields = server.next()
    assert fields["dropped"] == 11
    assert len(fields["changes"]) == CHANGES_A_REQUEST
    assert server.next()["dropped"] == 0


def test_request_to_a_hanging_server_ends_after_its_time(server: HookServer) -> None:
    server.may_answer.clear()
    hook = AlarmHook(HookSettings(server.url(), timeout_s=0.1), "here", at_once)
    hook.changed(change())
    server.next()
    server.next()
    assert hook.view()["failures"]
    server.may_answer.set()
    hook.stop()


class Clock:
    """Clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_pauses_double_with_jitter_up_to_their_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alarm_hook, "PAUSE_S", 1.0)
    clock = Clock()
    hook = AlarmHook(HookSettings("http://127.0.0.1:1/"), "here", at_once, clock)
    pauses = []
    for _ in range(14):
        hook._record_failure("it answered 500")
        pauses.append(hook._next_at - clock.now)
    for number, pause in enumerate(pauses):
        most = min(2.0**number, PAUSE_MOST_S)
        assert most / 2 <= pause <= most
    assert len(set(pauses)) == len(pauses)


def test_server_that_is_away_is_named_without_its_path() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    results: queue.Queue[Row] = queue.Queue()
    hook = AlarmHook(HookSettings(f"http://127.0.0.1:{port}/hush"), "here", at_once)
    hook.test(results.put)
    row = results.get(timeout=60)
    assert (row["url"], row["status"]) == (f"http://127.0.0.1:{port}", None)
    assert "Connection refused" in str(row["error"])
    hook.stop()


def test_test_is_sent_at_once_while_changes_wait_for_a_failing_server(
    hook: AlarmHook, server: HookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alarm_hook, "PAUSE_S", 300.0)
    server.status = 503
    server.answer = b"no\nroom"
    hook.changed(change())
    server.next()
    eventually(lambda: hook.view()["failures"], "the request has failed")
    results: queue.Queue[Row] = queue.Queue()
    hook.test(results.put)
    assert server.next()["test"] is True
    row = results.get(timeout=60)
    assert row["status"] == 503
    assert str(row["error"]).startswith("it answered 503: no")
    assert "\n" not in str(row["error"])
    assert hook.view()["pending"] == 1


def test_tests_that_wait_are_bounded(hook: AlarmHook, server: HookServer) -> None:
    server.may_answer.clear()
    hook.test(lambda row: None)
    server.next()
    for _ in range(TESTS_MOST):
        hook.test(lambda row: None)
    with pytest.raises(PreconditionFailed, match="tests of the web hook wait already"):
        hook.test(lambda row: None)


def test_connection_that_the_server_has_closed_is_opened_again(hook: AlarmHook, server: HookServer) -> None:
    hook.changed(change())
    server.next()
    eventually(lambda: fates(hook)[0] == 1, "sent")
    assert hook._connection is not None
    hook._connection[1]._http.sock.shutdown(socket.SHUT_RDWR)
    hook.changed(change("queue b"))
    server.next()
    eventually(lambda: fates(hook)[0] == 2, "sent over another connection")
    assert hook.view()["failures"] == 0


def test_settings_of_a_reload_count_from_the_next_request_on(hook: AlarmHook, server: HookServer) -> None:
    server.status = 500
    hook.changed(change())
    server.next()
    with hook_server() as another:
        hook.configure(HookSettings(another.url("/new"), "other"))
        path, headers, body = another.got.get(timeout=60)
        assert path == "/new"
        at = int(headers[SIGNATURE].partition(",")[0].removeprefix("t="))
        assert headers[SIGNATURE] == signature("other", at, body)
        eventually(lambda: fates(hook)[0] == 1, "sent")


def test_ended_hook_takes_nothing_more(hook: AlarmHook, server: HookServer) -> None:
    hook.stop()
    hook.changed(change())
    assert hook.view()["pending"] == 0
    with pytest.raises(PreconditionFailed, match="the broker stops"):
        hook.test(lambda row: None)
    assert server.got.empty()


def test_certificate_of_the_server_is_verified(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path, "ca"), Authority(tmp_path, "other")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(authority.issue("server", "localhost"), authority.key("server"))
    with hook_server(context) as server:
        results: queue.Queue[Row] = queue.Queue()
        for ca, error in ((stranger.ca, "CERTIFICATE_VERIFY_FAILED"), (authority.ca, "None")):
            hook = AlarmHook(HookSettings(server.url(), ca=str(ca)), "here", at_once)
            hook.test(results.put)
            assert error in str(results.get(timeout=60)["error"])
            hook.stop()


def test_authorities_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(ConfigError, match=r"ca in \[alarm-hook\]: '.*ca\.pem' has no certificates"):
        context_of(HookSettings("https://localhost/", ca=str(tmp_path / "ca.pem")))


# In a broker


def table(server: HookServer, secret: str = "s3cret") -> str:
    return f'[alarm-hook]\nurl = "{server.url()}"\nsecret = "{secret}"\n'


def close_gate(broker: BrokerProcess) -> None:
    run(broker, "broker", "set", "alarm-gate-closed=1ms", "alarm-clear=1ms", "alarm-disk-low=none", "alarm-loop=none")
    run(broker, "queues", "declare", "orders")
    run(broker, "queues", "block", "orders")


def test_broker_posts_raised_and_cleared_alarms(server: HookServer, tmp_path: Path) -> None:
    with serving(tmp_path, *settings_file(tmp_path, table(server))) as broker:
        close_gate(broker)
        said = server.next()["changes"]
        run(broker, "queues", "unblock", "orders")
        said += server.next()["changes"]
        assert [(each["change"], each["alarm"]["kind"]) for each in said] == [("raised", "gate"), ("cleared", "gate")]
        assert run(broker, "alarms", "test").startswith(f"http://localhost:{server.server_port} answered 200 in ")
        assert server.next()["test"] is True
        server.status = 500
        done = penstock_command("alarms", "test", "--url", broker.url)
        assert done.returncode == 1
        assert done.stderr == f"penstock: http://localhost:{server.server_port}: it answered 500: taken\n"
        shown = run(broker, "config") + broker.log() + run(broker, "status")
        assert "s3cret" not in shown
        assert "hush" not in shown


async def test_reload_changes_adds_and_removes_the_hook(
    server: HookServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "penstock")
    file = tmp_path / "penstock.toml"
    file.write_text("")

    async with in_process(settings=load(file)) as broker:
        alarms = broker.driver.alarms

        async def reload(text: str) -> None:
            file.write_text(text)
            reloading = broker.reload()
            assert reloading is not None
            await reloading

        assert alarms.listener.view() is None
        await reload(table(server))
        alarms.listener.changed(change())
        assert await asyncio.to_thread(server.next)
        hook = alarms.listener
        await reload(table(server, "another"))
        assert alarms.listener is hook
        bad = tmp_path / "ca.pem"
        bad.write_text("nothing")
        await reload(f'{table(server)}ca = "{bad}"\n')
        assert any("the old web hook of alarms stays" in text for text in caplog.messages)
        await reload("")
        assert type(alarms.listener) is AlarmListener


async def test_stop_of_a_broker_does_not_wait_for_a_hanging_server_for_long(server: HookServer) -> None:
    server.may_answer.clear()
    settings = Settings(hook=HookSettings(server.url(), timeout_s=60.0))
    async with in_process(settings=settings) as broker:
        broker.driver.alarms.listener.changed(change())
        await asyncio.to_thread(server.next)
    assert not server.may_answer.is_set(), "the server hangs still"
