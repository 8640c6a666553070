"""Offsets of a source: keys, ranges, splits into partitions, and lost ranges."""

import json
from itertools import pairwise

import pytest

from pyspark_penstock.errors import CursorError
from pyspark_penstock.offsets import (
    Cut,
    Range,
    advanced,
    ahead,
    cut_of,
    filled,
    from_spark,
    generations_of,
    key_of,
    lost,
    rows_of_batch,
    split,
    to_spark,
)  # fmt: skip


def test_text_of_an_offset_depends_on_positions_alone():
    assert json.dumps(to_spark({"b": 2, "a": 1})) == json.dumps(to_spark({"a": 1, "b": 2}))


def test_offset_survives_the_checkpoint():
    positions = {"orders": 2**62, "audit": 0}
    assert from_spark(json.loads(json.dumps(to_spark(positions)))) == positions


@pytest.mark.parametrize(
    "foreign",
    [
        {},
        {"v": 0, "q": {}},
        {"v": "2", "q": {}},
        {"v": 1},
        {"v": 1, "q": {"orders": -1}},
        {"v": 1, "q": {"orders": "7"}},
        {"logOffset": 3},
        [1],
        "x",
        None,
    ],
)
def test_offset_of_another_source_is_refused(foreign):
    for read in (from_spark, rows_of_batch, generations_of):
        if read is from_spark or not isinstance(foreign, dict):
            with pytest.raises(
                CursorError, match=r"the checkpoint's offset .* restore it, or begin with a new checkpoint"
            ):
                read(foreign)


def test_queue_on_several_servers_has_one_key_on_each():
    assert key_of("orders", "a:1", 1) == "orders"
    assert key_of("orders", "a:1", 2) == "orders@a:1"


def test_position_never_goes_backwards_and_a_removed_queue_keeps_its_key():
    assert advanced({"old": 5, "orders": 9}, {"orders": 7, "new": 1}) == {"old": 5, "orders": 9, "new": 1}


def test_queue_subscribed_later_begins_at_the_position_of_its_cursor():
    assert filled({"orders": 9}, {"orders": 9, "audit": 40}) == {"orders": 9, "audit": 40}


def test_range_settled_before_the_checkpoint_is_reported_as_lost():
    assert lost({"a": 3, "b": 5}, {"a": 8, "b": 5}) == [Range("a", 3, 8)]


def test_checkpoint_beyond_the_queue_is_named():
    assert ahead({"a": 30, "b": 5, "gone": 9}, {"a": 8, "b": 5}) == [Range("a", 8, 30)]


def test_partitions_without_new_messages_are_none():
    assert split({"a": 4}, {"a": 4}, 8, 100) == []


def test_small_batch_is_one_partition_a_queue():
    assert split({"a": 0, "b": 10}, {"a": 40, "b": 11}, 1, 50_000) == [Range("a", 0, 40), Range("b", 10, 11)]


def test_partitions_hold_no_more_than_the_cap():
    assert split({"a": 0}, {"a": 250}, 1, 100) == [Range("a", 0, 83), Range("a", 83, 166), Range("a", 166, 250)]


def test_wished_number_of_partitions_is_shared_out_by_size():
    found = split({"a": 0, "b": 0}, {"a": 300, "b": 100}, 4, 10_000)
    assert [range_.key for range_ in found] == ["a", "a", "a", "b"]


@pytest.mark.parametrize("least", [1, 3, 16])
@pytest.mark.parametrize("most", [1, 7, 1000])
@pytest.mark.parametrize("end", [{"a": 1}, {"a": 20, "b": 7}, {"a": 21, "b": 1000, "c": 3}])
def test_partitions_cover_every_sequence_once_in_order(least, most, end):
    found = split({"a": 0}, end, least, most)
    for key, hi in end.items():
        mine = [range_ for range_ in found if range_.key == key]
        assert mine[0].lo == 0
        assert mine[-1].hi == hi
        assert all(one.hi == other.lo for one, other in pairwise(mine))
        assert all(0 < range_.hi - range_.lo <= most for range_ in mine)


def test_partitions_are_at_most_as_many_as_sequences():
    assert len(split({}, {"a": 3}, 100, 100)) == 3


def test_cut_of_a_batch_survives_the_checkpoint():
    offset = json.loads(json.dumps(to_spark({"a": 7}, query=("id", "app"), cut=Cut(3, 100))))
    assert cut_of(offset) == Cut(3, 100)
    assert from_spark(offset) == {"a": 7}


def test_offset_of_an_earlier_version_has_no_cut():
    assert cut_of(to_spark({"a": 7}, query=("id", "app"))) is None


@pytest.mark.parametrize(
    "cut",
    [
        7,
        [],
        {},
        {"way": 1},
        {"way": 0, "minPartitions": 1, "maxRecordsPerPartition": 5},
        {"way": 1, "minPartitions": 0, "maxRecordsPerPartition": 5},
        {"way": 1, "minPartitions": "2", "maxRecordsPerPartition": 5},
        {"way": 1, "minPartitions": True, "maxRecordsPerPartition": 5},
    ],
)
def test_edited_cut_is_refused_in_one_sentence(cut):
    with pytest.raises(CursorError, match=r"offset has the cut .*'minPartitions': 1.*; restore it, or begin with"):
        cut_of({"v": 1, "q": {}, "cut": cut})


def test_cut_of_a_later_version_names_both_ways():
    with pytest.raises(CursorError, match=r"by a later version of Penstock \(way 9; this version knows 1\): run the"):
        cut_of({"v": 1, "q": {}, "cut": {"way": 9, "borders": [4]}})


def test_offset_of_a_later_version_names_both_versions():
    with pytest.raises(CursorError, match="offset has version 2, and this version of Penstock reads 1: run the query"):
        from_spark({"v": 2, "queues": {"orders": 5}})
