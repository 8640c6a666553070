"""The commands that declare, publish, consume and list, as somebody types them, against a broker on a real port."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.client import Connection, ControlClient
from tests.support.brokers import PATIENCE, BrokerProcess, eventually, penstock_command


def run(broker: BrokerProcess, *words: str, code: int = 0, vhost: str = "") -> str:
    """Run a command; what it printed."""
    done = penstock_command(*words, "--url", broker.url + vhost)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


def told(broker: BrokerProcess, *words: str) -> Any:
    """Run a command with --json; what it answered."""
    return json.loads(run(broker, *words, "--json"))


def listed(broker: BrokerProcess, kind: str, *words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(broker, "list", kind, "--json", *words).splitlines()]


def started(broker: BrokerProcess, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "penstock", *words, "--url", broker.url]
    return subprocess.Popen(
        command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=1,
        preexec_fn=_hear_interrupts,
    )  # fmt: skip


def _hear_interrupts() -> None:
    """Who runs the tests in the background of a shell has SIGINT ignored, and all that he starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_a_topology_is_declared_listed_and_deleted(broker: BrokerProcess, name: str) -> None:
    said = run(broker, "declare", "queue", name, "--durable", "capacity-messages=100", "hold-deadline=5")
    assert said == f"queue {name} is declared; it has 0 messages and 0 consumers\n"
    assert told(broker, "declare", "exchange", name, "--type", "topic") == {"exchange": name, "type": "topic"}
    assert run(broker, "bind", name, name, "--key", "a.#", "k=1") == f"{name} is bound to {name} by 'a.#'\n"
    run(broker, "bind", "amq.fanout", name, "--exchange")
    queue = next(each for each in listed(broker, "queues") if each["name"] == name)
    assert queue["arguments"] == {"capacity-messages": 100, "hold-deadline": 5}
    bindings = [each for each in listed(broker, "bindings") if each["source"] and each["destination"] == name]
    assert [(each["source"], each["destination_type"], each["arguments"]) for each in bindings] == [
        ("amq.fanout", "exchange", {}),
        (name, "queue", {"k": 1}),
    ]
    assert name in [each["name"] for each in listed(broker, "exchanges")]
    run(broker, "unbind", name, name, "--key", "a.#", "k=1")
    run(broker, "unbind", "amq.fanout", name, "--exchange")
    assert [each for each in listed(broker, "bindings") if each["source"] and each["destination"] == name] == []
    assert run(broker, "delete", "queue", name) == f"queue {name} is deleted with 0 messages\n"
    assert run(broker, "delete", "exchange", name) == f"exchange {name} is deleted\n"


def test_tables_are_for_people_and_leave_the_asker_out(broker: BrokerProcess, name: str) -> None:
    run(broker, "declare", "queue", name, "capacity-messages=9")
    run(broker, "publish", name, "one", "two")
    heads, *rows = run(broker, "list", "queues").splitlines()
    assert heads.split()[:6] == ["name", "messages", "bytes", "capacity", "fill", "messages_unacknowledged"]
    row = next(row for row in rows if row.startswith(name))
    said = [name, "2", "490", "9 messages", "22.2 %", "0", "0", "open", "0", "no", "capacity-messages=9"]
    assert re.split(" {2,}", row) == said
    assert not any("amq.gen" in row for row in rows)
    with Connection(broker.url) as connection:
        connection.channel().consume(name)
        assert [each["queue"]["name"] for each in listed(broker, "consumers")] == [name]
        assert "penstock-client" in run(broker, "list", "connections")
        assert len(listed(broker, "channels")) == len(listed(broker, "connections")) == 1


def test_status_tells_how_full_queues_are_and_leaves_its_own_out(own_broker: BrokerProcess) -> None:
    run(own_broker, "declare", "queue", "orders", "capacity-messages=9", "capacity-bytes=1000")
    run(own_broker, "declare", "queue", "free", "capacity-bytes=none")
    run(own_broker, "publish", "orders", "one", "two")
    lines = run(own_broker, "status").splitlines()
    assert "orders: 2 messages, 490 bytes of 9 messages and 1,000 bytes (49 % full), gate open, " in "\n".join(lines)
    assert "free: 0 messages, 0 bytes of no limit, gate open, 0 producers blocked, 0 consumers" in lines
    assert not any("amq.gen" in line or "more queue" in line for line in lines)
    answer = told(own_broker, "status")
    assert [(each["queue"], each["fill_percent"]) for each in answer["queues"]] == [("orders", 49.0), ("free", None)]
    assert (answer["queue_count"], answer["vhost"]) == (2, "/")


@pytest.mark.parametrize("kind", ["queue", "exchange", "cursor", "vhost"])
def test_to_delete_what_is_not_there_is_an_error_unless_it_may_be_missing(
    broker: BrokerProcess, name: str, kind: str
) -> None:
    refused = run(broker, "delete", kind, name, code=1)
    assert refused.startswith("penstock: ")
    assert f"no {kind} '{name}'" in refused
    assert run(broker, "delete", kind, name, "--if-exists") == f"{kind} {name} does not exist\n"
    assert told(broker, "delete", kind, name, "--if-exists") == {kind: name, "deleted": False}


def test_what_may_be_missing_is_deleted_all_the_same(broker: BrokerProcess, name: str) -> None:
    run(broker, "declare", "queue", name)
    assert told(broker, "delete", "queue", name, "--if-exists") == {"queue": name, "deleted": True, "messages": 0}
    run(broker, "declare", "exchange", name)
    assert told(broker, "delete", "exchange", name, "--if-exists") == {"exchange": name, "deleted": True}
    run(broker, "declare", "queue", name)
    run(broker, "publish", name, "x")
    assert "PRECONDITION_FAILED" in run(broker, "delete", "queue", name, "--if-empty", "--if-exists", code=1)
    assert run(broker, "delete", "queue", name) == f"queue {name} is deleted with 1 message\n"


def test_cursors_are_listed_and_deleted(broker: BrokerProcess, name: str) -> None:
    run(broker, "declare", "queue", name)
    run(broker, "publish", name, "one", "two", "three")
    with Connection(broker.url) as connection, ControlClient(connection) as control:
        token = control.attach(name, [name]).token
        end = control.plan(name, token, {name: 0}, rows=2).end
        control.settle(name, token, end)
    (cursor,) = [each for each in listed(broker, "cursors") if each["name"] == name]
    assert cursor["queues"] == [{"queue": name, "settled": 2, "planned": 2, "tail": 3, "deleted": False}]
    assert (cursor["unsettled"], cursor["polling"], cursor["more_queues"]) == (1, False, 0)
    heads, *rows = run(broker, "list", "cursors").splitlines()
    assert re.split(" {2,}", heads) == ["name", "queues", "unsettled", "polling", "asked last"]
    row = next(re.split(" {2,}", row) for row in rows if row.startswith(name))
    assert row[:4] == [name, f"{name} 2/3", "1", "no"]
    assert re.fullmatch(r"\d+\.\d s ago", row[4])
    assert run(broker, "delete", "cursor", name) == f"cursor {name} is deleted\n"
    assert name not in [each["name"] for each in listed(broker, "cursors")]
    assert run(broker, "get", name, "--ack") == "three\n", "what was not settled is the queue's again"


def test_a_list_of_many_comes_page_by_page(broker: BrokerProcess, name: str) -> None:
    run(broker, "declare", "vhost", name)
    with Connection(broker.url + name) as connection:
        channel = connection.channel()
        for number in range(1203):
            channel.queue_declare(f"q{number:04}")
    found = listed(broker, "queues", "--everywhere")
    assert [each["name"] for each in found if each["vhost"] == name] == [f"q{number:04}" for number in range(1203)]
    assert run(broker, "delete", "vhost", name) == f"vhost {name} is deleted\n"
    assert "405 resource-locked" in run(broker, "delete", "vhost", "/", code=1)


def test_messages_go_in_and_come_out(broker: BrokerProcess, name: str) -> None:
    run(broker, "declare", "queue", name)
    assert run(broker, "publish", name, "one", "two") == "2 messages published\n"
    answer = told(broker, "publish", name, "grüße", "--persistent", "--content-type", "text/plain", "--header", "n=1")
    assert answer == {"published": 1, "confirmed": 1, "refused": 0, "unroutable": 0}
    assert run(broker, "get", name, "--count", "2") == "one\ntwo\n"
    message = json.loads(run(broker, "consume", name, "--count", "3", "--json").splitlines()[2])
    assert message["payload"] == "grüße"
    assert message["properties"] == {"content_type": "text/plain", "headers": {"n": 1}, "delivery_mode": 2}
    assert run(broker, "get", name, "--ack") == "one\n"
    assert run(broker, "consume", name, "--ack", "--timeout", "0.2") == "two\ngrüße\n"
    assert "has no ready message; `penstock list queues` shows unacknowledged ones" in run(broker, "get", name, code=1)
    run(broker, "publish", name, "again")
    assert run(broker, "purge", name) == f"queue {name} is purged of 1 message\n"


def test_files_and_pipes_are_published_line_by_line_or_whole(broker: BrokerProcess, name: str, tmp_path: Path) -> None:
    run(broker, "declare", "queue", name)
    file = tmp_path / "orders.txt"
    file.write_bytes(b"one\r\n\ntwo\nlast")
    run(broker, "publish", name, "--file", str(file))
    run(broker, "publish", name, "--file", str(file), "--whole")
    assert run(broker, "consume", name, "--count", "5", "--ack") == "one\n\ntwo\nlast\none\n\ntwo\nlast\n"
    with started(broker, "publish", name) as process:
        assert process.stdin is not None
        process.stdin.write("from a pipe\n")
        process.stdin.flush()
        eventually(lambda: broker.queue(name)["depth"]["messages"] == 1, "it is published while the pipe is open")
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
    assert "cannot read" in run(broker, "publish", name, "--file", str(tmp_path / "none"), code=1)
    assert (
        run(broker, "publish", name, "x", "--whole", code=1)
        == "penstock: BODY and --file (or --whole) exclude each other: give bodies or a file\n"
    )


def test_who_publishes_is_told_what_holds_it_and_what_was_refused(broker: BrokerProcess, name: str) -> None:
    run(broker, "declare", "queue", name, "capacity-messages=2", "hold-deadline=1.5")
    done = penstock_command("publish", name, "one", "two", "three", "--url", broker.url)
    assert done.returncode == 1
    assert done.stdout.startswith(
        "2 messages published; 1 refused (RESOURCE_ERROR - refused after its hold deadline of 1.5 s"
    )
    assert f"penstock: held by the broker: queue {name}: 2 messages > stop 1" in done.stderr
    nowhere = penstock_command("publish", f"{name}-none", "x", "--url", broker.url)
    assert (nowhere.returncode, nowhere.stdout) == (1, "0 messages published; 1 reached no queue (NO_ROUTE)\n")
    assert "404" in run(broker, "publish", "k", "x", "--exchange", f"{name}-none", code=1)


def test_a_publish_with_a_timeout_is_given_up_while_it_is_held(broker: BrokerProcess, name: str) -> None:
    run(broker, "declare", "queue", name, "capacity-messages=2", "hold-deadline=0")
    lines = run(broker, "publish", name, "one", "two", "three", "--timeout", "2", code=1).splitlines()
    assert lines[0].startswith(f"penstock: held by the broker: queue {name}: 2 messages > stop 1")
    refused = lines[-1]
    assert refused.startswith(
        f"penstock: gave up: the broker confirmed nothing for 2 s: queue {name}: 2 messages > stop 1"
    )
    assert refused.endswith("; 1 of 3 messages are confirmed, and those without an answer may still be accepted")
    assert broker.queue(name)["depth"]["messages"] == 2


def test_a_consumer_that_is_interrupted_gives_back_what_it_has(broker: BrokerProcess, name: str) -> None:
    run(broker, "declare", "queue", name)
    run(broker, "publish", name, "one", "two")
    with started(broker, "consume", name) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["one\n", "two\n"]
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        assert process.stderr is not None
        assert process.stderr.read() == ""
    queue = broker.queue(name)
    assert (queue["depth"]["messages"], queue["unacknowledged"]["messages"]) == (2, 0)


def test_a_consumer_whose_queue_goes_says_so(broker: BrokerProcess, name: str) -> None:
    run(broker, "declare", "queue", name)
    with started(broker, "consume", name, "--ack") as process:
        eventually(lambda: broker.queue(name)["consumers"] == 1, "it consumes")
        run(broker, "delete", "queue", name)
        assert process.wait(PATIENCE) == 1
        assert process.stderr is not None
        assert process.stderr.read() == f"penstock: queue '{name}' was deleted\n"


def test_definitions_go_out_and_come_in(broker: BrokerProcess, name: str, tmp_path: Path) -> None:
    run(broker, "declare", "vhost", name)
    run(broker, "declare", "queue", "q", "capacity-messages=3", vhost=name)
    file = tmp_path / "broker.json"
    assert run(broker, "definitions", "export", str(file), "--here", vhost=name) == f"{file}: 1 vhost, 1 queue\n"
    assert json.loads(run(broker, "definitions", "export", "--here", vhost=name))["queues"][0]["name"] == "q"
    run(broker, "delete", "queue", "q", vhost=name)
    assert run(broker, "definitions", "import", str(file)) == "1 queue created\n"
    file.write_text(file.read_text().replace('"durable"', '"durabel"'))
    refused = run(broker, "definitions", "import", str(file), code=1)
    assert "queues[0].durabel: unknown key; did you mean durable?; nothing was imported" in refused
    assert "cannot read" in run(broker, "definitions", "import", str(tmp_path / "none"), code=1)
    run(broker, "delete", "vhost", name)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("declare", "queue", "q", "capacity-bytes"), "'capacity-bytes' is not NAME=VALUE"),
        (("declare", "queue", "q", "a=1", "a=2"), "'a' is given twice: give it once"),
        (("declare", "queue", "q", "capacity-bites=1"), "did you mean capacity-bytes?"),
        (("declare", "exchange", "e", "--type", "odd"), "unknown exchange type 'odd'"),
        (("bind", "no-such-exchange", "q"), "404"),
        (("consume", "no-such-queue"), "404"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(broker: BrokerProcess, words: tuple[str, ...], says: str) -> None:
    refused = run(broker, *words, code=1)
    assert says in refused
    assert refused.startswith("penstock: ")
    assert len(refused.splitlines()) == 1


@pytest.mark.parametrize(
    "words",
    [("list", "exchanges"), ("list", "exchanges", "--json"), ("status",), ("status", "--json"), ("why",), ("settings",),
     ("show", "broker"), ("definitions", "export"), ("get", "QUEUE"), ("get", "QUEUE", "--json")],
    ids=" ".join,
)  # fmt: skip
def test_an_output_that_is_full_or_closed_is_one_sentence(
    broker: BrokerProcess, name: str, words: tuple[str, ...]
) -> None:
    run(broker, "declare", "queue", name)
    run(broker, "publish", name, "x")
    given = [name if word == "QUEUE" else word for word in words]
    command = [sys.executable, "-m", "penstock", *given, "--url", broker.url]
    assert into_full_device(command) == (1, "penstock: cannot write the output: No space left on device\n")
    reading, closed = os.pipe()
    os.close(reading)
    with os.fdopen(closed, "w") as pipe:
        done = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (1, "penstock: cannot write the output: Broken pipe\n")
    assert broker.queue(name)["depth"]["messages"] == 1, "what could not be printed is in the queue still"


@pytest.mark.parametrize(
    "words",
    [("--help",), ("list", "--help"), ("--version",),
     ("serve", "--listen", "127.0.0.1:0", "--memory", "--quiet")],
    ids=" ".join,
)  # fmt: skip
def test_help_and_the_line_that_says_ready_need_an_output_as_well(words: tuple[str, ...]) -> None:
    done = into_full_device([sys.executable, "-m", "penstock", *words])
    assert done == (1, "penstock: cannot write the output: No space left on device\n")


def into_full_device(command: list[str]) -> tuple[int, str]:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
    return done.returncode, done.stderr


def test_a_url_that_is_none_is_one_sentence() -> None:
    done = penstock_command("list", "queues", "--url", "http://127.0.0.1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "penstock: --url: a broker's URL starts with amqp://, not with http://\n"


@pytest.mark.parametrize(
    "command",
    ["declare queue", "declare exchange", "declare vhost", "bind", "unbind", "publish", "consume", "get", "purge",
     "delete queue", "delete exchange", "delete vhost", "delete cursor", "list", "status", "why", "definitions export",
     "definitions import"],
)  # fmt: skip
def test_every_command_has_an_example_in_its_help(command: str) -> None:
    words = " ".join(penstock_command(*command.split(), "--help").stdout.split())
    assert f"For example: penstock {command}" in words or f"penstock {command} " in words.partition("For example")[2]
