"""Repeated requests to a broker that may become unreachable."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.common import Feed
from penstock.client.errors import ControlError
from penstock.errors import PenstockError
from tests.support.brokers import serving


@pytest.mark.slow
def test_broker_that_is_lost_is_an_error_and_the_next_question_connects_again(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        feed = Feed(broker.url)
        assert feed.ask("top", {})["sums"]["queues"] == 0
        with pytest.raises(ControlError, match="no queue 'none'"):
            feed.ask("top", {"queue": "none"})
        assert feed.ask("top", {})["connections"] == 1, "a refusal leaves the connection as it is"
        port = broker.port
    for _ in range(2):
        with pytest.raises(PenstockError):
            feed.ask("top", {})
    with serving(tmp_path, listen=(f"127.0.0.1:{port}",)):
        assert feed.ask("top", {})["connections"] == 1
        feed.close()
