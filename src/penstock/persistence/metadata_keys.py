"""Keys of metadata records: names joined without ambiguity.

The keys suit every store: no control characters, no lone surrogates, and short enough for an index.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

OCTETS_MAX: Final = 1024
"""Longest key in octets; a longer one is cut and completed by a digest. PostgreSQL's indexes take 2,704 octets."""
CUT: Final = 200
"""Characters of a long key that stay readable."""
_ESCAPED: Final = re.compile(r"[%/\x00-\x1f\x7f\ud800-\udfff]")


def key_of(*names: str) -> str:
    """Return the key of these names, joined by slashes; slashes in names are escaped as in a URL."""
    key = "/".join([_ESCAPED.sub(_escape, name) for name in names])
    octets = key.encode()
    if len(octets) <= OCTETS_MAX:
        return key
    return f"{key[:CUT]}%#{digest(octets)}"  # No name contains this escape, so the key is unique.


def digest(octets: bytes) -> str:
    """Return a digest of these octets in 32 hexadecimal digits."""
    return hashlib.blake2b(octets, digest_size=16).hexdigest()


def _escape(found: re.Match[str]) -> str:
    return f"%{ord(found[0]):02X}"
