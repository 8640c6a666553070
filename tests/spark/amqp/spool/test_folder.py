"""Folder of a spool: its owner, its lock, and its files."""

import json

import pytest

from pyspark_amqp.spool.errors import SpoolError
from pyspark_amqp.spool.folder import ALL, Owner, SpoolFolder

MINE = Owner(("a:5672",), "/", ("orders",))


def test_folder_lock_is_exclusive_and_released(tmp_path):
    first, second = SpoolFolder(tmp_path / "spool"), SpoolFolder(tmp_path / "spool")
    first.lock(0)
    with pytest.raises(SpoolError, match=r"in use by process \d+ on .*, since 20.*: one live query to a spool"):
        second.lock(0)
    second.close()
    first.close()
    second.lock(0)
    second.close()


def test_folder_that_cannot_be_made_is_reported(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(SpoolError, match="cannot be used: Not a directory; option spool takes a local folder"):
        SpoolFolder(tmp_path / "file" / "spool").lock(0)


def test_positions_and_owner_are_there_again(tmp_path):
    folder = SpoolFolder(tmp_path)
    folder.open(MINE)
    folder.write_position(7, ALL)
    again = SpoolFolder(tmp_path)
    again.open(MINE)
    assert (again.id, again.settled, again.acknowledged, again.owner) == (folder.id, 7, ALL, MINE)


@pytest.mark.parametrize(
    ("known", "asked", "said"),
    [
        (MINE, Owner(("a:5672",), "shop", ("orders",)), "virtual host '/', not 'shop'"),
        (MINE, Owner(("a:5672",), "/", ("x", "y")), "the queue 'orders', not the queues 'x', 'y'"),
        (MINE, Owner(("b:5672",), "/", ("orders",)), "the broker at a:5672, not at b:5672"),
        (Owner(("a:1",), "/", ("q",), "one"), Owner(("a:1",), "/", ("q",), "two"), "the broker 'one', not 'two'"),
    ],
)
def test_spool_with_messages_of_another_owner_is_refused(tmp_path, known, asked, said):
    folder = SpoolFolder(tmp_path)
    folder.open(known)
    with pytest.raises(SpoolError, match=f"has messages of {said}"):
        folder.claim(asked, empty=False)
    folder.claim(asked, empty=True)
    assert folder.owner == asked


def test_cluster_that_moves_and_a_queue_that_joins_are_the_same_spool(tmp_path):
    folder = SpoolFolder(tmp_path)
    folder.open(Owner(("a:1",), "/", ("orders",), "rabbit"))
    folder.claim(Owner(("b:1",), "/", ("orders", "audit"), "rabbit"), empty=False)
    assert json.loads((tmp_path / "spool.json").read_text())["owner"]["queues"] == ["orders", "audit"]


@pytest.mark.parametrize("text", ["{", "[]x", '{"version": 1}', '{"version": 2, "id": "x"}'])
def test_damaged_or_foreign_file_is_reported(tmp_path, text):
    (tmp_path / "spool.json").write_text(text)
    with pytest.raises(SpoolError, match=r"spool.json|another version"):
        SpoolFolder(tmp_path).open(MINE)
