"""Rules for URLs in the settings: of keys for tokens, of an HTTP back end, and of a collector of traces.

An error quotes no part of a URL, which may contain a password.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
"""Hosts of URLs that need no TLS."""


def url_fault(url: str, query: bool = False, insecure: bool = False) -> str:
    """Return the rule that a URL violates, after the name of its setting; empty for a valid URL.

    `query`: the URL may have a query. `insecure`: the URL needs no TLS.
    """
    without = "user and fragment" if query else "user, query and fragment"
    rule = f"must be a URL of http or https without {without}"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return rule
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return rule
    if "@" in parts.netloc or parts.fragment or (parts.query and not query):
        return rule
    if not url.isascii() or not url.isprintable() or " " in url:
        return rule
    if parts.scheme == "http" and parts.hostname not in LOOPBACK and not insecure:
        return "must be a URL of https, or of this machine"
    return ""
