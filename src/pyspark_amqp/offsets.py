"""Offsets in Spark's checkpoint: ``{"n": 1200, "spool": "9f86…", "v": 1}``, everything of a spool up to a number."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pyspark_amqp.errors import SpoolUnusable

VERSION: Final = 1


def to_spark(spool_id: str, number: int) -> dict[str, Any]:
    """Return the offset that Spark stores; it compares the texts, so the order of keys is fixed."""
    return {"n": number, "spool": spool_id, "v": VERSION}


def from_spark(offset: Any, spool_id: str, folder: str) -> int:
    """Return the number in an offset.

    Raises `SpoolUnusable` when the offset is not ours, or of another spool than that in the folder.
    """
    number = offset.get("n") if isinstance(offset, Mapping) else None
    if type(number) is not int or number < 0 or offset.get("v") != VERSION:
        raise SpoolUnusable(
            f"the checkpoint's offset {offset!r} was not written by this version of the amqp source; restore it, or "
            "begin with a new checkpoint and a new spool"
        )
    if offset.get("spool") != spool_id:
        raise SpoolUnusable(
            f"the checkpoint belongs to another spool than {Path(folder)}: give option spool the folder of this "
            "checkpoint, or begin with a new checkpoint"
        )
    return number
