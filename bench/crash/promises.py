"""What a broker promises, and is judged by."""

from typing import NamedTuple


class Promises(NamedTuple):
    """What a broker promises beyond what is confirmed; what it does not is counted and not judged."""

    settled_across_queues: bool = True
    """An acknowledgement is surely taken when a later publish *to any queue* on its connection was confirmed, or with
    tx.commit-ok; otherwise only a confirmation from the acknowledged message's own queue makes it sure."""
    transactions: bool = True
    """A transaction is on the disk in full or not at all."""
    wipes: bool = True
    """What a purge or deletion took does not come back once that was answered."""
    dead_letters: bool = True
    """A message is in its queue or in that for dead letters, always in exactly one of them, and in order."""
    declarations: bool = True
    """What was declared or deleted stays so once that was answered."""
    transients: bool = True
    """A transient message does not come back after a restart, not even where it was paged."""
    marks: bool = True
    """What a client has had comes again marked as redelivered only, also if its acknowledgement was in doubt."""
