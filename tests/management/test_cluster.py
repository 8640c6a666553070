"""Rolling restart as plain data, and the sentence of a broker without shards."""

from __future__ import annotations

import pytest

from penstock.errors import PreconditionFailed
from penstock.management.cluster import DONE, FAILED, ClusterView, RollingRestart, required


def test_broker_without_shards_names_the_way_to_have_some() -> None:
    with pytest.raises(PreconditionFailed, match=r"this broker has no shards: `penstock serve --shards N` starts"):
        required(None)
    view = ClusterView()
    assert required(view) is view


def test_restart_row_has_the_shards_done_and_left_with_times() -> None:
    restart = RollingRestart(["1", "2", "3"], "ops", 10.0)
    restart.done = 1
    restart.reason = "shard '2' is stopping"
    row = restart.row(1_000.0)
    assert (row["done"], row["left"], row["began_at"], row["ended_at"]) == (["1"], ["2", "3"], 1_010_000, None)
    assert row["sentence"] == ("the restart asked for by user 'ops' is running: 1 of 3 shards; shard '2' is stopping")


@pytest.mark.parametrize(("state", "reason"), [(DONE, ""), (FAILED, "shard '1' has not come back")])
def test_restart_that_has_ended_has_its_reason_and_time(state: str, reason: str) -> None:
    restart = RollingRestart(["1"], "ops", 10.0)
    restart.end(state, 12.5, reason)
    row = restart.row(0.0)
    assert (row["state"], row["reason"], row["ended_at"]) == (state, reason or None, 12_500)
