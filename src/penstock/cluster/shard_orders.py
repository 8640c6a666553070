"""Orders of a node for its shards: what a process is started with, and the words of their messages."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

PING: Final = "ping"
PONG: Final = "pong"
"""Question of the node, and the answer of the shard: whether it serves."""
STOP: Final = "stop"
SERVES: Final = "serves"
FAILS: Final = "fails"
"""Request to stop, with the sentence for clients; reports that the shard serves, and why it ends."""
VERSION: Final = "version"
"""Version of the catalogue, with each question of the node and after each change."""
SHARE: Final = "share"
"""Another share of the machine: the fields of `Allowance`."""
PULL: Final = "pull"
PAGE: Final = "page"
"""Request of a shard for the rows behind a place, and the answer (access_pages.py)."""
HAS: Final = "has"
"""Version of the catalogue that a shard has, after each pull and with each answer."""
RELOAD: Final = "reload"
RELOADED: Final = "reloaded"
"""Request to apply a settings file whose text comes by a socket (settings_feed.py), and the answer: its number."""
ENDED: Final = "ended"
"""Report of a shard: numbers of connections that the node has given to it and that have ended."""
ASK_ENDS: Final = "ask-ends"
"""Question for all ends up to now, with its number, and the answer behind their reports."""
CERTIFICATES: Final = "certificates"
"""Request to read the certificates again."""


@dataclass(frozen=True)
class ShardOrder:
    """Order of one process of a shard."""

    name: str
    data: str
    """Data directory."""
    node: str
    """Name of the node."""
    share: tuple[int, ...]
    """Share of the machine: the fields of `Allowance`."""
    http: str
    """Name of the socket inside the node at which the shard answers (server/inside.py).

    Without a secret it is the path of a Unix socket, at which users log in with passwords.
    """
    copies: bool = False
    """True if the node owns users, permissions and limits, so that the shard serves once it has a copy."""
    key: str = ""
    """Key of the channel by which clients come, in hexadecimal digits; empty without a channel."""
    number: int = 0
    """Number of the shard among those of its node, from 1: numbers of its jobs differ from those of others."""
    secret: str = ""
    """Key of requests inside the node; empty for a shard that is not asked, and asks nobody."""
    parent: str = ""
    """Name of the socket at which the node answers its shards."""
    first_number: int = 0
    """Number before those of connections that begin in the shard, such as those of bridges."""
    renewed: bool = False
    """True if the settings file was read again: the last socket has its text."""
    silence_s: float = 2.0
    """Silence of the node after which the shard gives its clients an error."""

    def row(self) -> dict[str, Any]:
        """Return the order for a packet."""
        return asdict(self)

    @classmethod
    def of(cls, row: dict[str, Any]) -> ShardOrder:
        """Return the order of a packet. Raises TypeError for other fields: node and shard are one build."""
        return cls(**{**row, "share": tuple(row["share"])})
