"""Records of how far queries have published (see ranges/marks.py), as journal groups write them."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

WHOLE_BATCH: Final = -1
"""Value of `MarkRecord.partition` for the progress of the batch itself."""


class MarkRecord:
    """A mark of one partition, or the progress of a batch, as one journal group writes it.

    A record is changed while its group is open and never later. So the store has the mark that belongs to the rows of
    its group, and not a newer one.
    """

    def __init__(self, vhost: str, query: str, target: str, partition: i64) -> None:
        self.vhost = vhost
        self.query = query
        self.target = target
        self.partition: i64 = partition
        self.group: i64 = 0
        """Number of its journal group."""
        self.batch: i64 = 0
        self.run = ""
        self.write = ""
        self.user = ""
        self.partitions: i64 = 0
        """Number of partitions of the batch; -1 for not known yet."""
        self.promoted = False
        """True if the batch was published as a whole."""
        self.rows: i64 = 0
        self.checked: i64 = 0
        self.digest = ""
