"""Keys of things: names put together so that two different ones never give the same text.

Any store can have them as text: no control characters, no half characters, and not longer than an index takes.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

OCTETS_MAX: Final = 1024
"""A longer key is cut, and its digest put there instead; PostgreSQL's indexes take 2,704 octets."""
CUT: Final = 200
"""Characters of it that stay, for people."""
_ESCAPED: Final = re.compile(r"[%/\x00-\x1f\x7f\ud800-\udfff]")


def key_of(*names: str) -> str:
    """Return the key that these names make, divided by slashes; those in the names are escaped, as in a URL."""
    key = "/".join([_ESCAPED.sub(_escape, name) for name in names])
    octets = key.encode()
    if len(octets) <= OCTETS_MAX:
        return key
    return f"{key[:CUT]}%#{digest(octets)}"  # No name is escaped so: it is no other's key.


def digest(octets: bytes) -> str:
    """Return 32 hexadecimal digits that stand for these octets."""
    return hashlib.blake2b(octets, digest_size=16).hexdigest()


def _escape(found: re.Match[str]) -> str:
    return f"%{ord(found[0]):02X}"
