"""URIs of bridges: what they name, and their text without secrets.

A URI may have a password anywhere in its user part and its query. So no refusal quotes a URI, and every character that
a reader could take for the end of the user part must be written as %XX.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from penstock.errors import PreconditionFailed
from penstock.settings.kind import type_word

SCHEMES: Final[dict[str, int]] = {"amqp": 5672, "amqps": 5671}
"""Schemes with their default ports."""
DEFAULT_VHOST: Final = "/"
URI_MOST: Final = 8_192
"""Most characters of a URI."""
PLACES: Final[tuple[str, ...]] = ("queue", "exchange", "key")
"""Parameters of the query that name the end of a bridge; others are options of the connection."""
QUERY_MOST: Final = 100
"""Most parameters of the query of a URI."""
EXAMPLE: Final = "an example is amqp://user:password@host/vhost"


class BridgeUri(NamedTuple):
    """URI of one end of a bridge."""

    scheme: str
    host: str
    """Empty for this broker."""
    port: int
    """0 for the default port of the scheme."""
    vhost: str
    query: tuple[tuple[str, str], ...]

    @property
    def is_here(self) -> bool:
        """Return whether the URI names this broker: it has no host."""
        return not self.host

    @property
    def text(self) -> str:
        """Return scheme, host, port and virtual host: no user, no password and no query."""
        vhost = "" if self.vhost == DEFAULT_VHOST else f"/{quote(self.vhost, safe='')}"
        if self.is_here:
            return f"{self.scheme}://{vhost}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = f":{self.port}" if self.port else ""
        return f"{self.scheme}://{host}{port}{vhost}"

    def title(self) -> str:
        """Return the broker and the virtual host, for people."""
        if self.is_here:
            return here(self.vhost)
        return f"{self.text}/" if self.vhost == DEFAULT_VHOST else self.text

    def place(self) -> tuple[str, int, str]:
        """Return host, port and virtual host, for comparisons."""
        port = self.port or SCHEMES[self.scheme]
        return (self.host.lower(), port, self.vhost) if self.host else ("", 0, self.vhost)


def here(vhost: str) -> str:
    """Return a virtual host of this broker, for people."""
    return "this broker" if vhost == DEFAULT_VHOST else f"vhost {vhost} of this broker"


def read_uri(title: str, uri: object, vhost: str = DEFAULT_VHOST) -> BridgeUri:
    """Read a URI; `title` names its place in refusals, which do not quote it. `vhost` is that of a URI without a path.

    Raises PreconditionFailed (406).
    """
    if not isinstance(uri, str):
        raise PreconditionFailed(f"{title} must be a URI of amqp or amqps, not {type_word(uri)}; {EXAMPLE}")
    if len(uri) > URI_MOST:
        raise PreconditionFailed(f"{title} has {len(uri):,} characters; the most is {URI_MOST:,}")
    try:
        parts = urlsplit(uri)
        port, host = parts.port, parts.hostname or ""
        query = tuple(parse_qsl(parts.query, keep_blank_values=True, max_num_fields=QUERY_MOST))
    except ValueError:
        raise PreconditionFailed(f"{title} must be a URI of amqp or amqps; {EXAMPLE}") from None
    if parts.scheme not in SCHEMES or not uri.isprintable() or " " in uri or "://" not in uri or port == 0:
        raise PreconditionFailed(f"{title} must be a URI of amqp or amqps; {EXAMPLE}")
    behind = uri.partition("://")[2].removeprefix(parts.netloc)
    if parts.netloc.count("@") > 1 or "@" in behind or "#" in behind or "\\" in uri:
        raise PreconditionFailed(f"{title} has an @ or # that must be written as %40 or %23: one @ ends the user part")
    if not host and parts.netloc:
        raise PreconditionFailed(f"{title} has a user or a port and no host; this broker is amqp:// without them")
    if parts.path.count("/") > 1:
        raise PreconditionFailed(f"{title} has more than one / behind the host; a / in a virtual host is %2F")
    named = (unquote(parts.path.removeprefix("/")) or DEFAULT_VHOST) if parts.path else vhost
    return BridgeUri(parts.scheme, host, port or 0, named, query)


def read_uris(title: str, given: object, vhost: str = DEFAULT_VHOST) -> list[BridgeUri]:
    """Read a URI, or a list of them, as `read_uri` does. Raises PreconditionFailed (406)."""
    uris = given if isinstance(given, list) else [given]
    if not uris:
        raise PreconditionFailed(f"{title} must be a URI of amqp or amqps, or a list of them; {EXAMPLE}")
    return [read_uri(title, uri, vhost) for uri in uris]


def hidden(value: object) -> object:
    """Return a value whose URIs have neither user and password nor options of a connection."""
    if isinstance(value, str) and "://" in value:
        return hidden_uri(value)
    if isinstance(value, list):
        return [hidden(each) for each in value]
    return {name: hidden(each) for name, each in value.items()} if isinstance(value, dict) else value


def hidden_uri(text: str) -> str:
    """Return a URI without secrets; of a text that is no valid URI only the scheme."""
    try:
        uri = read_uri("", text)
    except PreconditionFailed:
        return f"{text.partition('://')[0]}://..."
    places = [(name, value) for name, value in uri.query if name in PLACES]
    return f"{uri.text}?{urlencode(places)}" if places else uri.text
