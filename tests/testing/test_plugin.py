"""The pytest plugin: its fixtures in separate tests, alone and beside others (pytester)."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
LOOPS = ("-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function")
PLUGIN = ("-p", "no:penstock", "-p", "penstock.testing.plugin", "-p", "no:cacheprovider", "-q", *LOOPS)
"""The plugin by its module, whether it is installed or not."""

CLIENTS = {
    "penstock": """
        import pytest
        import penstock
        from penstock.testing import assert_depth, assert_held

        async def test_asyncio(penstock_connection, penstock_full_queue):
            async with penstock_connection as connection:
                publisher = connection.publisher("full", window=1)
                with pytest.raises((penstock.FlowControlTimeout, penstock.ConfirmTimeout)):
                    await publisher.send(b"3", timeout=0.1)
                assert penstock_full_queue.depth == 2

        def test_blocking(penstock_sync_connection, penstock_broker):
            penstock_sync_connection.declare_queue("orders")
            penstock_sync_connection.publisher("orders").send(b"1")
            assert_depth(penstock_broker.queue("orders"), 1)
    """,
    "pika": """
        import contextlib
        import pika
        from penstock.testing import assert_depth

        def test_pika(penstock_url, penstock_broker):
            with contextlib.closing(pika.BlockingConnection(pika.URLParameters(penstock_url))) as connection:
                channel = connection.channel()
                channel.queue_declare("orders")
                channel.confirm_delivery()
                channel.basic_publish("", "orders", b"1")
            assert_depth(penstock_broker.queue("orders"), 1)
    """,
    "aio_pika": """
        import aio_pika
        from penstock.testing import aio

        async def test_aio_pika(penstock_url, penstock_broker):
            async with await aio_pika.connect_robust(penstock_url) as connection:
                channel = await connection.channel()
                await channel.declare_queue("orders")
                await channel.default_exchange.publish(aio_pika.Message(b"1"), "orders")
            await aio.assert_depth(penstock_broker.queue("orders"), 1)
    """,
    "kombu": """
        import kombu
        from penstock.testing import assert_depth

        def test_kombu(penstock_url, penstock_broker):
            with kombu.Connection(penstock_url) as connection, connection.SimpleQueue("orders") as queue:
                queue.put({"order": 1})
                assert queue.get(timeout=10).payload == {"order": 1}
    """,
    "proton": """
        import threading
        from penstock.testing import assert_confirmed, assert_held
        from proton import Message
        from proton.utils import BlockingConnection

        def test_proton(penstock_url, penstock_full_queue, penstock_slow_consumer, penstock_broker):
            connection = BlockingConnection(
                penstock_url.partition("/test")[0],
                virtual_host="vhost:" + penstock_broker.vhost, allowed_mechs="PLAIN", heartbeat=None, timeout=60
            )
            sender = connection.create_sender("full")
            sent = threading.Thread(target=lambda: sender.send(Message("3")))
            sent.start()
            assert_held(penstock_full_queue)
            assert sent.is_alive()
            penstock_slow_consumer("full", rate=100)
            sent.join(60)
            assert not sent.is_alive()
            assert_confirmed(penstock_full_queue, messages=3)
            connection.close()
    """,
}


@pytest.mark.parametrize("client", CLIENTS)
def test_client_works_against_the_fixtures(pytester: pytest.Pytester, client: str) -> None:
    pytest.importorskip(client)
    pytester.makepyfile(CLIENTS[client])
    pytester.runpytest_inprocess(*PLUGIN).assert_outcomes(passed=CLIENTS[client].count(" test_"))


def test_entry_point_of_pytest_is_the_plugin() -> None:
    project = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"penstock": "penstock.testing.plugin"}
    assert importlib.util.find_spec("penstock.testing.plugin") is not None


def test_import_of_penstock_imports_no_pytest() -> None:
    code = "import sys, penstock, penstock.testing; assert 'pytest' not in sys.modules and '_pytest' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_plugin_imports_no_broker_before_a_fixture_is_used() -> None:
    code = "import sys, penstock.testing.plugin; assert 'penstock.server.server' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_broker_fixture_is_shared_by_tests_that_see_nothing_of_each_other(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        ports = set()

        @pytest.mark.parametrize("number", [1, 2])
        def test_queue(penstock_broker, penstock_url, number):
            ports.add(penstock_url.split("@")[1].split("/")[0])
            assert penstock_broker.look("queue", "orders") is None
            penstock_broker.full_queue("orders")
            penstock_broker.close_gate("orders", "stocktaking")

        def test_port():
            assert len(ports) == 1
        """
    )
    threads = set(threading.enumerate())
    pytester.runpytest_inprocess(*PLUGIN).assert_outcomes(passed=3)
    assert set(threading.enumerate()) - threads == set()


@pytest.mark.skipif(importlib.util.find_spec("xdist") is None, reason="pytest-xdist is not installed")
def test_workers_beside_each_other_have_brokers_of_their_own(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(
        """
        import os
        import pytest
        from penstock.testing import assert_depth_never_above

        @pytest.mark.parametrize("number", range(8))
        def test_full_queue(penstock_full_queue, penstock_clock, penstock_server, number):
            penstock_clock.advance(30)
            assert_depth_never_above(penstock_full_queue, 2)
            with open(f"{os.environ['PORTS']}/{os.environ['PYTEST_XDIST_WORKER']}", "w") as file:
                file.write(penstock_server.url)
        """
    )
    ports = pytester.mkdir("ports")
    monkeypatch.setenv("PORTS", str(ports))
    pytester.runpytest_subprocess(*PLUGIN, "-n", "2").assert_outcomes(passed=8)
    urls = [file.read_text() for file in ports.iterdir()]
    assert len(urls) == len(set(urls)) == 2


def test_failed_assertion_is_one_sentence_without_the_kits_own_lines(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from penstock.testing import assert_held

        def test_held(penstock_broker):
            assert_held(penstock_broker.declare_queue("orders"))
        """
    )
    result = pytester.runpytest_inprocess(*PLUGIN, "--penstock-within=0.1")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E * AssertionError: no publish is held by queue 'orders' within 0.1 s: queue orders: *"]
    )
    result.stdout.no_fnmatch_line("*await_state*")


def test_settings_of_the_broker_come_from_a_file(pytester: pytest.Pytester) -> None:
    pytester.makefile(".toml", penstock="[broker]\nhold-deadline = 7\n")
    pytester.makeini("[pytest]\npenstock_config = penstock.toml\npenstock_within = 3\n")
    pytester.makepyfile(
        """
        def test_settings(penstock_server):
            assert penstock_server.core.defaults.hold_deadline_s == 7.0
            assert penstock_server.within_s == 3.0
        """
    )
    pytester.runpytest_inprocess(*PLUGIN).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("--penstock-within=soon", "*penstock_within is 'soon': it must be a number of seconds above 0"),
        ("--penstock-within=0", "*penstock_within is '0': it must be a number of seconds above 0"),
        ("--penstock-config=none.toml", "*cannot read the settings file '*none.toml': No such file or directory"),
    ],
)
def test_bad_option_is_one_sentence(pytester: pytest.Pytester, option: str, sentence: str) -> None:
    pytester.makepyfile("def test_url(penstock_url): pass")
    result = pytester.runpytest_inprocess(*PLUGIN, option)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([sentence])


def test_server_can_be_another_one(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest
        import penstock.testing

        @pytest.fixture(scope="session")
        def penstock_server(tmp_path_factory):
            with penstock.testing.server(data=tmp_path_factory.mktemp("data")) as server:
                yield server
        """
    )
    pytester.makepyfile(
        """
        def test_crash(penstock_broker):
            penstock_broker.declare_queue("orders", durable=True)
            penstock_broker.server.wait_for(penstock_broker.server.broker.is_on_disk)
            penstock_broker.crash()
            assert penstock_broker.queue("orders").depth == 0
        """
    )
    pytester.runpytest_inprocess(*PLUGIN).assert_outcomes(passed=1)


def test_process_is_killed_and_started_again(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_kill(penstock_process):
            pid = penstock_process.pid
            penstock_process.kill()
            penstock_process.start()
            assert penstock_process.pid != pid
        """
    )
    pytester.runpytest_inprocess(*PLUGIN).assert_outcomes(passed=1)
