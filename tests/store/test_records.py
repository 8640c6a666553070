"""Records of the store, and the transaction that writes them."""

from __future__ import annotations

from penstock.store.records import MessageRow, MetadataRecord, SettlementRecord, StoreTransaction


def test_records_of_metadata_are_written_in_the_last_state_and_first_order() -> None:
    commit = StoreTransaction()
    commit.metadata = [
        MetadataRecord("queue", "a", b"1"),
        MetadataRecord("queue", "b", b"1"),
        MetadataRecord("exchange", "a", b"1"),
        MetadataRecord("queue", "a", None),
        MetadataRecord("queue", "b", b"2"),
    ]
    assert commit.latest() == [
        MetadataRecord("queue", "a", None),
        MetadataRecord("queue", "b", b"2"),
        MetadataRecord("exchange", "a", b"1"),
    ]


def test_records_of_a_transaction_count_with_the_bytes_of_the_data() -> None:
    commit = StoreTransaction()
    assert commit.size() == 0
    commit.rows = [MessageRow(1, b"12345")]
    commit.settlements = [SettlementRecord(2, b"123")]
    commit.metadata = [MetadataRecord("queue", "a", b"12"), MetadataRecord("queue", "b", None)]
    assert commit.size() == 10
