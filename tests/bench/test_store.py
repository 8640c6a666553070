"""The measurement of the store: it commits the rows that it counts."""

from pathlib import Path

import pytest

from bench import store


@pytest.mark.parametrize("way", store.WAYS)
@pytest.mark.parametrize("group", [1, 10, 200])
def test_store_measurement_commits_the_rows_of_its_way(tmp_path: Path, way: str, group: int) -> None:
    commits = list(store.WAYS[way](group, 50))
    assert [len(row.data) for commit in commits for row in commit.rows] == [group * store.MESSAGE] * 50
    gone = [number for commit in commits for number in commit.rows_gone]
    assert len(gone) == len(set(gone))
    cost = store.measure(tmp_path, way, group, 5)
    assert cost.cpu_us > 0
    assert cost.written is None or cost.written > store.MESSAGE or not cost.written  # Nothing is, on a tmpfs.
    assert list(tmp_path.iterdir()) == []


def test_store_that_was_not_closed_is_read_whole(tmp_path: Path) -> None:
    opening, reading, cpu = store.recovery(tmp_path, 2000, 100)
    assert opening > 0
    assert reading > 0
    assert cpu > 0
