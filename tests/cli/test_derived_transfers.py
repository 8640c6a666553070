"""Commands that choose messages by conditions and positions, and the preview of a redrive."""

from __future__ import annotations

import json
import re

import pika

from tests.support.brokers import BrokerProcess, eventually, penstock_command, some_name
from tests.support.commands import run, told
from tests.support.pika_helpers import channel_of

LETTERS = ("invoice 1", "order 1", "invoice 2", "order 2")


def rejected(broker: BrokerProcess, capacity: str = "capacity-messages=100") -> tuple[str, str]:
    """Declare a queue and its dead-letter queue with four letters; return their names."""
    orders, failed = some_name("orders"), some_name("failed")
    run(broker, "queues", "declare", failed)
    letters = ("x-dead-letter-exchange=", f"x-dead-letter-routing-key={failed}")
    run(broker, "queues", "declare", orders, capacity, *letters)
    with channel_of(broker, confirms=True) as channel:
        for number, body in enumerate(LETTERS):
            kind = body.split()[0]
            properties = pika.BasicProperties(headers={"kind": kind, "number": number})
            channel.basic_publish("", orders, body.encode(), properties)
            method, _, _ = channel.basic_get(orders)
            channel.basic_nack(method.delivery_tag, requeue=False)
    eventually(lambda: broker.depth(failed) == 4, "all have died")
    return orders, failed


def bodies(broker: BrokerProcess, queue: str, *words: str) -> list[str]:
    lines = run(broker, "messages", "browse", queue, "--json", *words).splitlines()
    return [json.loads(line)["payload"] for line in lines]


def test_browse_shows_messages_that_meet_all_conditions(broker: BrokerProcess) -> None:
    _, failed = rejected(broker)
    assert bodies(broker, failed) == list(LETTERS)
    assert bodies(broker, failed, "--body", "voice") == ["invoice 1", "invoice 2"]
    assert bodies(broker, failed, "--header", "kind=order", "--header", "number=3") == ["order 2"]
    assert bodies(broker, failed, "--reason", "rejected", "--body", "2") == ["invoice 2", "order 2"]
    assert bodies(broker, failed, "--key", f"{failed[:8]}*") == list(LETTERS)
    done = penstock_command("messages", "browse", failed, "--reason", "expired", "--url", broker.url)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"queue '{failed}' has no matching message\n"
    wrong = run(broker, "messages", "browse", failed, "--header", "kind", code=1)
    assert "'header' must have texts NAME=VALUE, not 'kind'" in wrong


def test_dry_run_of_a_redrive_prints_targets_and_moves_nothing(broker: BrokerProcess) -> None:
    orders, failed = rejected(broker)
    lines = run(broker, "queues", "redrive", failed, "--dry-run").splitlines()
    assert lines[0] == f"4 messages of queue '{failed}' examined (4 rejected); nothing is moved"
    assert lines[1].startswith(f"to queue '{orders}': 4 messages, ")
    assert lines[1].endswith(": they go in at once")
    assert broker.depth(failed) == 4
    answer = told(broker, "messages", "redrive", failed, "--dry-run", "--body", "order")
    assert (answer["examined"], answer["unmatched"], answer["targets"][0]["messages"]) == (4, 2, 2)
    run(broker, "queues", "block", orders, "--reason", "upgrade")
    held = run(broker, "queues", "redrive", failed, "--dry-run").splitlines()
    assert re.search(r": held by the operator [\d.]+ s: they wait until it opens$", held[1])
    run(broker, "queues", "unblock", orders)
    assert "--dry-run has no job" in run(broker, "queues", "redrive", failed, "--dry-run", "--detach", code=1)


def test_redrive_by_header_takes_only_matching_letters(broker: BrokerProcess) -> None:
    orders, failed = rejected(broker)
    said = run(broker, "queues", "redrive", failed, "--header", "kind=order").splitlines()
    assert said == [f"2 messages redriven back into {said[0].partition(' back into ')[2]}",
                    "2 messages not matched by the filter"]  # fmt: skip
    eventually(lambda: (broker.depth(orders), broker.depth(failed)) == (2, 2), "two are back")
    assert bodies(broker, orders) == ["order 1", "order 2"]


def test_positions_are_moved_and_deleted_and_missing_ones_counted(broker: BrokerProcess) -> None:
    _, failed = rejected(broker)
    target = some_name("target")
    run(broker, "queues", "declare", target)
    found = [
        row["position"] for row in map(json.loads, run(broker, "messages", "browse", failed, "--json").splitlines())
    ]
    said = run(broker, "queues", "move", failed, target, "--positions", f"{found[1]},{found[3]}", "--positions", "9999")
    assert said.splitlines() == [f"2 messages moved from queue '{failed}' to queue '{target}'",
                                 "1 position without a ready message"]  # fmt: skip
    assert bodies(broker, target) == ["order 1", "order 2"]
    said = run(broker, "messages", "delete", failed, "--positions", f"{found[0]}-{found[2]}")
    assert said.splitlines() == [f"2 messages of queue {failed} deleted", "1 position without a ready message"]
    assert broker.depth(failed) == 0
    refused = run(broker, "messages", "delete", target, code=1)
    assert f"to drop all messages of queue '{target}', purge it" in refused
    assert "is no position" in run(broker, "queues", "move", failed, target, "--positions", "x", code=1)
    assert broker.depth(target) == 2
