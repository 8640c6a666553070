"""Digests of acknowledged messages, which survive the process of a spool."""

import os

import pytest

from pyspark_amqp.spool.acknowledged import NAME, AcknowledgedFile
from pyspark_amqp.spool.duplicates import Duplicates
from pyspark_amqp.spool.rows import DIGEST_OCTETS


def digest(number: int) -> bytes:
    return b"%0*d" % (DIGEST_OCTETS, number)


def test_last_digests_are_there_again_and_the_file_is_bounded(tmp_path):
    file = AcknowledgedFile(tmp_path, 10)
    assert file.recall() == []
    for first in range(0, 63, 3):
        file.append([digest(number) for number in range(first, first + 3)])
        assert (tmp_path / NAME).stat().st_size <= 20 * DIGEST_OCTETS
    assert AcknowledgedFile(tmp_path, 10).recall() == [digest(number) for number in range(53, 63)]


def test_digest_that_was_torn_is_written_over(tmp_path):
    file = AcknowledgedFile(tmp_path, 10)
    file.append([digest(1)])
    with (tmp_path / NAME).open("ab") as end:
        end.write(digest(2)[:7])
    again = AcknowledgedFile(tmp_path, 10)
    assert again.recall() == [digest(1)]
    again.append([digest(3)])
    assert AcknowledgedFile(tmp_path, 10).recall() == [digest(1), digest(3)]


def test_bytes_left_by_a_power_failure_are_no_digest(tmp_path):
    (tmp_path / NAME).write_bytes(digest(1) + bytes(3 * DIGEST_OCTETS))
    assert AcknowledgedFile(tmp_path, 10).recall() == [digest(1)]


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_unwritable_folder_stops_no_query(tmp_path):
    tmp_path.chmod(0o500)
    AcknowledgedFile(tmp_path, 10).append([digest(1)])
    tmp_path.chmod(0o700)
    assert AcknowledgedFile(tmp_path, 10).recall() == []


def test_next_process_knows_messages_acknowledged_with_an_id(tmp_path):
    known = Duplicates(redelivered=True, ids=False)
    known.keep(AcknowledgedFile(tmp_path, 10))
    for number, message_id in enumerate(["x", None, "z"]):
        known.add(number, digest(number), message_id)
    known.acknowledged([0, 1])
    again = Duplicates(redelivered=True, ids=False)
    again.keep(AcknowledgedFile(tmp_path, 10))
    assert [again.was_acknowledged(digest(number)) for number in range(3)] == [True, False, False]


def test_next_process_knows_messages_settled_but_not_acknowledged(tmp_path):
    known = Duplicates(redelivered=True, ids=False)
    known.keep(AcknowledgedFile(tmp_path, 10))
    known.add(1, digest(1), "x")
    known.add(2, digest(2), "y")
    known.expect_all()
    known.settled(1)
    known.settled(1)
    assert AcknowledgedFile(tmp_path, 10).recall() == [digest(1)]
    assert (known.recognise(digest(1)), known.recognise(digest(2))) == (1, 2)


def test_settled_message_with_a_waiting_acknowledgement_is_known(tmp_path):
    known = Duplicates(redelivered=True, ids=False)
    known.keep(AcknowledgedFile(tmp_path, 10))
    known.add(1, digest(1), "x")
    known.expect_all()
    assert known.recognise(digest(1)) == 1
    known.settled(1)
    known.expect_all()
    assert known.was_acknowledged(digest(1))
    assert AcknowledgedFile(tmp_path, 10).recall() == [digest(1)]
