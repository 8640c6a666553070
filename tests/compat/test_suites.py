"""Test suites of other projects: supported commands, changed files, and the reading of their output."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from bench.brokers import INTERPRETED
from compat import control, ginkgo, golang, rust, suites
from compat.nodes import PenstockBroker
from compat.preparing import PREPARATIONS, prepare
from compat.substitutions import AMQP_PORT, HTTP_PORT, SourcesUnavailable, Substitution, copy_at, substitute
from tests.support.brokers import PATIENCE, eventually
from tests.support.raw_channel import Connection


@pytest.fixture(scope="module")
def controlled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PenstockBroker]:
    broker = PenstockBroker(INTERPRETED, tmp_path_factory.mktemp("controlled"))
    yield broker
    broker.stop()


@pytest.fixture
def asked(controlled: PenstockBroker, tmp_path: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """The folder of the commands, and the environment in which they find the broker."""
    with control.served(controlled, tmp_path) as place:
        yield control.commands(tmp_path / "commands"), os.environ | place


def ask(asked: tuple[Path, dict[str, str]], *words: str) -> subprocess.CompletedProcess[str]:
    folder, environment = asked
    return subprocess.run([folder / words[0], *words[1:]], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("project", "has_tools"), [("aiormq", True), (None, False)])
def test_tools_are_for_suites_of_others_and_not_for_applications_of_ours(
    controlled: PenstockBroker, tmp_path: Path, project: str | None, has_tools: bool
) -> None:
    suite = suites.Suite("key", "title", project, "tests")
    paths = suites.environment_of(suite, controlled, tmp_path / "results", tmp_path)["PYTHONPATH"].split(os.pathsep)
    assert (str(tmp_path / suites.TOOLS) in paths) is has_tools
    assert str(suites.ROOT) in paths


def url(broker: PenstockBroker) -> str:
    return f"amqp://guest:guest@127.0.0.1:{broker.port}/"


def test_suite_finds_a_connection_by_its_port_and_closes_it(
    controlled: PenstockBroker, asked: tuple[Path, dict[str, str]]
) -> None:
    parameters = pika.URLParameters(url(controlled))
    connection = pika.BlockingConnection(parameters)
    port = connection._impl._transport._sock.getsockname()[1]  # type: ignore[attr-defined]
    listed = ask(asked, "rabbitmqctl", "-n", "broker", "list_connections", "-q", "pid", "peer_port").stdout
    (pid,) = [line.split("\t")[0] for line in listed.splitlines() if line.endswith(f"\t{port}")]
    assert ask(asked, "rabbitmqctl", "-n", "broker", "close_connection", pid, "by a test").returncode == 0
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="by a test"):
        connection.process_data_events(PATIENCE)


def test_suite_stops_and_starts_the_broker_which_stays_at_its_port(
    controlled: PenstockBroker, asked: tuple[Path, dict[str, str]]
) -> None:
    with Connection(url(controlled)) as connection:
        connection.channel().queue_declare("outlives", durable=True)
    assert ask(asked, "make", "-C", "anywhere", "stop-rabbit-on-node", "start-rabbit-on-node").returncode == 0
    with Connection(url(controlled)) as connection:
        connection.channel().queue_delete("outlives")


def test_alarm_of_a_suite_blocks_publishers_until_the_last_is_cleared(
    controlled: PenstockBroker, asked: tuple[Path, dict[str, str]]
) -> None:
    assert ask(asked, "make", "set-resource-alarm", "SOURCE=disk").returncode == 0
    assert ask(asked, "rabbitmqctl", "-n", "x", "set_vm_memory_high_watermark", "0.000000001").returncode == 0
    connection = pika.BlockingConnection(pika.URLParameters(url(controlled)))
    said: list[str] = []
    connection.add_on_connection_blocked_callback(lambda _, method: said.append("blocked"))
    connection.add_on_connection_unblocked_callback(lambda _, method: said.append("unblocked"))
    channel = connection.channel()
    channel.queue_declare("alarmed", exclusive=True)
    channel.basic_publish("", "alarmed", b"x")

    def told(count: int) -> bool:
        connection.process_data_events(0)
        return len(said) == count

    eventually(lambda: told(1), "connection.blocked")
    assert ask(asked, "rabbitmqctl", "-n", "x", "set_vm_memory_high_watermark", "0.4").returncode == 0
    assert told(1)
    assert ask(asked, "make", "clear-resource-alarm", "SOURCE=disk").returncode == 0
    eventually(lambda: told(2), "connection.unblocked")
    connection.close()
    assert said == ["blocked", "unblocked"]


def test_rabbitmqctl_command_without_equivalent_is_refused_with_a_sentence(asked: tuple[Path, dict[str, str]]) -> None:
    done = ask(asked, "rabbitmqctl", "-n", "broker", "trace_on")
    assert (done.returncode, done.stderr) == (64, "Penstock has nothing that does what `rabbitmqctl trace_on` does.\n")


def test_substitution_with_an_unexpected_count_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("5672 and 5672")
    substitute(tmp_path, (Substitution("a", "5672", "port", 2),))
    assert (tmp_path / "a").read_text() == "port and port"
    with pytest.raises(SourcesUnavailable, match="has not 1 times `5672`"):
        substitute(tmp_path, (Substitution("a", "5672", "port"),))


def events(*said: dict[str, str]) -> list[str]:
    return ["# what is no JSON is passed over", *map(json.dumps, said)]


def test_go_test_with_subtests_counts_once() -> None:
    found = golang.outcomes(
        events(
            {"Action": "run", "Test": "TestA"},
            {"Action": "output", "Test": "TestA/part", "Output": "    a_test.go:5: it broke\n"},
            {"Action": "fail", "Test": "TestA/part"},
            {"Action": "fail", "Test": "TestA"},
            {"Action": "pass", "Test": "TestB"},
            {"Action": "skip", "Test": "TestC"},
            {"Action": "fail"},
        )
    )
    assert list(found) == [
        {"test": "TestA", "outcome": "failed", "why": "a_test.go:5: it broke"},
        {"test": "TestB", "outcome": "passed", "why": ""},
        {"test": "TestC", "outcome": "skipped", "why": ""},
    ]


def test_package_of_go_that_fails_without_a_test_of_its_own_is_a_failure() -> None:
    found = list(golang.outcomes(events({"Action": "pass", "Test": "TestA"}, {"Action": "fail"})))
    assert [(one["test"], one["outcome"]) for one in found] == [("TestA", "passed"), ("the whole package", "failed")]


def test_sources_at_a_broker_name_its_ports_and_are_copied_once(tmp_path: Path) -> None:
    wanted = (Substitution("tests", "5672", AMQP_PORT), Substitution("tests", "15673", HTTP_PORT))
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "tests").write_text("amqp 5672, http 15673")
    substitute(tmp_path / "theirs", wanted)
    copy = copy_at(tmp_path / "theirs", wanted, (1, 2), tmp_path)
    assert (copy / "tests").read_text() == "amqp 1, http 2"
    (copy / "built").touch()
    assert (copy_at(tmp_path / "theirs", wanted, (1, 2), tmp_path) / "built").exists()
    assert (copy_at(tmp_path / "theirs", wanted, (3, 4), tmp_path) / "tests").read_text() == "amqp 3, http 4"


def spec(state: str, leaf: str, kind: str = "It", *containers: str, why: str = "") -> dict[str, object]:
    failure = {"Failure": {"Message": why}} if why else {}
    return {"State": state, "LeafNodeText": leaf, "LeafNodeType": kind, "ContainerHierarchyTexts": containers} | failure


def test_ginkgo_specs_count_once_each_and_repeated_names_get_numbers() -> None:
    specs = [
        spec("passed", "", "BeforeSuite"),
        spec("passed", "lists", "It", "GET /queues", "without arguments"),
        spec("failed", "lists", "It", "GET /queues", "without arguments", why="Expected\n    <int>: 1\nto equal 2"),
        spec("pending", "waits"),
        spec("panicked", "breaks", why="nil"),
        spec("failed", "", "AfterSuite", why="left"),
    ]
    found = list(ginkgo.outcomes([{"SpecReports": specs}, {"SpecReports": None}]))
    assert [(one["test"], one["outcome"], one["why"]) for one in found] == [
        ("GET /queues without arguments lists", "passed", ""),
        ("GET /queues without arguments lists (2)", "failed", "Expected <int>: 1 to equal 2"),
        ("waits", "skipped", ""),
        ("breaks", "failed", "nil"),
        ("AfterSuite", "failed", "left"),
    ]


def test_rust_outcomes_are_read_beside_what_tests_print() -> None:
    printed = """
running 4 tests
test a::passes ... ok
test a::prints ... SKIPPED: test requires 4.1
ok
test b::fails ... FAILED
test b::waits ... ignored, needs a cluster

failures:

---- b::fails stdout ----
thread 'b::fails' (12) panicked at tests/b.rs:5:9:
assertion failed: status is 404
note: run with `RUST_BACKTRACE=1`
"""
    assert rust.outcomes(printed.splitlines()) == [
        {"test": "a::passes", "outcome": "passed", "why": ""},
        {"test": "a::prints", "outcome": "passed", "why": ""},
        {"test": "b::fails", "outcome": "failed", "why": "assertion failed: status is 404"},
        {"test": "b::waits", "outcome": "skipped", "why": "left out by its authors"},
    ]


@pytest.mark.parametrize("suite", PREPARATIONS)
def test_preparation_of_a_suite_is_accepted(controlled: PenstockBroker, suite: str) -> None:
    prepare(suite, controlled.http_port)
    prepare(suite, controlled.http_port)


def test_suites_that_need_preparation_run_alone() -> None:
    assert {suite.key for suite in suites.SUITES if suite.alone} >= set(PREPARATIONS)
