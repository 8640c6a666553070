"""The trial of a wheel (scripts/first_message.py), against a broker of the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import first_message
from tests.support.brokers import BrokerProcess, serving
from tests.support.commands import listed


def test_trial_sends_a_message_and_finds_the_api_and_the_console(tmp_path: Path) -> None:
    with serving(tmp_path, "--http", "127.0.0.1:0") as broker:
        first_message.first_message(broker.url)
        assert first_message.check_http(broker.http) == "/api/overview and the console answer"
        assert [each["name"] for each in listed(broker, "queues")] == ["orders"]
        check_refusals(broker)


def check_refusals(broker: BrokerProcess) -> None:
    """Ask for what is not there."""
    status, _ = first_message.fetch(f"{broker.http}/api/nowhere")
    assert status == 404
    with pytest.raises(first_message.TrialError, match="the status of /api/overview: 404 instead of 200"):
        first_message.check_http(f"{broker.http}/api")
