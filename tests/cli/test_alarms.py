"""`penstock alarms`: sentences, JSON, exit codes and changes, against a broker on a real port."""

from __future__ import annotations

import json
import signal

from penstock import sync
from tests.support.brokers import BrokerProcess, eventually, penstock_command
from tests.support.commands import run, started, told


def close_gate(broker: BrokerProcess) -> None:
    """Close a gate that raises an alarm at once, and whose alarm is cleared at once."""
    run(broker, "broker", "set", "alarm-gate-closed=1ms", "alarm-clear=1ms")
    run(broker, "queues", "declare", "orders")
    run(broker, "queues", "block", "orders", "--reason", "maintenance")


def printed(broker: BrokerProcess, *words: str) -> str:
    """Return what a command prints that finds an alarm."""
    done = penstock_command(*words, "--url", broker.url)
    assert done.returncode == 1, (done.stdout, done.stderr)
    return done.stdout


def raised(broker: BrokerProcess) -> bool:
    with sync.connect(broker.url) as connection:
        return bool(connection.request("alarm.list")["alarms"])


def test_alarms_command_prints_none_and_exits_with_zero(own_broker: BrokerProcess) -> None:
    run(own_broker, "broker", "set", "alarm-disk-low=none", "alarm-loop=none")
    assert run(own_broker, "alarms") == "no alarm is raised\n"
    assert run(own_broker, "alarms", "list") == "no alarm is raised\n"
    assert told(own_broker, "alarms")["alarms"] == []


def test_raised_alarm_is_printed_with_advice_and_exit_code_one(own_broker: BrokerProcess) -> None:
    run(own_broker, "broker", "set", "alarm-disk-low=none", "alarm-loop=none")
    close_gate(own_broker)
    eventually(lambda: raised(own_broker), "an alarm of the gate")
    said = printed(own_broker, "alarms")
    assert said.startswith("warning gate (vhost /) for ")
    assert "the operator, who holds queue orders: maintenance" in said
    answer = json.loads(printed(own_broker, "alarms", "--json"))
    assert [alarm["subject"] for alarm in answer["alarms"]] == ["the operator, who holds queue orders"]
    run(own_broker, "queues", "unblock", "orders")
    eventually(lambda: not raised(own_broker), "the alarm is cleared")
    assert run(own_broker, "alarms") == "no alarm is raised\n"


def test_follow_prints_changes_until_interrupted(own_broker: BrokerProcess) -> None:
    run(own_broker, "broker", "set", "alarm-disk-low=none", "alarm-loop=none")
    close_gate(own_broker)
    following = started(own_broker, "alarms", "--follow", "--json")
    assert following.stdout is not None
    assert json.loads(following.stdout.readline())["change"] == "raised"
    run(own_broker, "queues", "unblock", "orders")
    cleared = json.loads(following.stdout.readline())
    assert (cleared["change"], cleared["subject"]) == ("cleared", "the operator, who holds queue orders")
    following.send_signal(signal.SIGINT)
    following.communicate()
    assert following.returncode == 130


def test_hook_test_without_a_hook_names_the_setting(own_broker: BrokerProcess) -> None:
    said = run(own_broker, "alarms", "test", code=1)
    assert said.startswith("penstock: this broker has no web hook for alarms: set url in [alarm-hook]")
