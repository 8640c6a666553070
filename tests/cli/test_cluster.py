"""Commands `cluster status` and `cluster restart`."""

from __future__ import annotations

import pytest

from tests.support.brokers import BrokerProcess
from tests.support.commands import refused

NO_SHARDS = "this broker has no shards: `penstock serve --shards N` starts a node with some"


@pytest.mark.parametrize("words", [("cluster", "status"), ("cluster", "restart"), ("cluster", "restart", "2")])
def test_commands_about_shards_are_refused_by_a_plain_broker(broker: BrokerProcess, words: tuple[str, ...]) -> None:
    assert NO_SHARDS in refused(*words, "--url", broker.url)
