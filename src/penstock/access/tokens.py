"""Tokens (JWT, RFC 7519) that clients send as passwords, as with RabbitMQ's OAuth 2 plugin: their check, and rules.

Theory of operation. The signature is verified in a thread, which may have to fetch keys. The key determines the
permitted algorithms, never the token: so neither `none` nor HMAC with a public key as its secret is accepted (RFC 8725
section 3.1). Times are compared with the broker's clock, with a leeway. Refusals are for the log, and quote no token.

The rules of the login are the scopes of OAuth 2, in RabbitMQ's form (its guide "OAuth 2.0 authentication backend").

| scope, after its prefix | grants |
|---|---|
| `configure:VHOST/NAME`, `write:...`, `read:...` | access to queues and exchanges whose names match |
| `read:VHOST/EXCHANGE/ROUTING_KEY`, `write:...` | the same, and access to routing keys of topic exchanges |
| `tag:administrator` | a tag |

`*` in a pattern is any number of characters; `%2F` and `%2A` are a slash and an asterisk. Other scopes grant nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import unquote_plus

from mypy_extensions import mypyc_attr
from typing_extensions import override

from penstock.access.access_table import name_flaw
from penstock.access.permission import PERMISSION_KINDS, Epoch
from penstock.access.rules import CredentialCheck, Rules
from penstock.errors import PenstockError

SCOPES_MOST: Final = 1_000
"""Most scopes of a token; a token with more is refused."""
PATTERN_OCTETS: Final = 1_024
"""Longest scope, in characters; a longer scope grants nothing."""
TAG: Final = "tag:"
WILDCARD: Final = "*"
"""Any number of characters in a pattern."""
RESERVED: Final = "%*/+"
"""Characters that a pattern has in percent-encoding only; the percent sign is the first to be encoded."""
NO_TEXT: Final = "%FF"
"""Text of a pattern that is no UTF-8, and matches nothing."""
TOKEN_OCTETS: Final = 16_384
"""Longest token, in bytes."""
SHOWN_LETTERS: Final = 60
"""Most characters of a text of a token that the log shows."""
ALGORITHMS: Final = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
    "oct": ("HS256", "HS384", "HS512"),
}
"""Algorithms by type of key (RFC 7518 section 6.1)."""


class Pattern:
    """Pattern with asterisks, matched in linear time: its parts are searched from left to right."""

    def __init__(self, text: str) -> None:
        parts = [_decoded(part) for part in text.split(WILDCARD)]
        self._parts: list[str] = [part for part in parts if part is not None]
        self._valid: bool = len(self._parts) == len(parts)

    def matches(self, name: str) -> bool:
        """Return whether a name matches, as a whole."""
        parts = self._parts
        if not self._valid or not name.startswith(parts[0]):
            return False
        if len(parts) == 1:
            return name == parts[0]
        pos = len(parts[0])
        for part in parts[1:-1]:
            pos = name.find(part, pos)
            if pos < 0:
                return False
            pos += len(part)
        return len(name) - pos >= len(parts[-1]) and name.endswith(parts[-1])

    def text(self) -> str:
        """Return a text of the same pattern, which is not longer than its first."""
        return WILDCARD.join([_encoded(part) for part in self._parts]) if self._valid else NO_TEXT


class Scope:
    """Scope that grants access."""

    def __init__(self, kind: str, vhost: str, name: str, routing_key: str | None) -> None:
        self.kind = kind
        self.vhost = Pattern(vhost)
        self.name = Pattern(name)
        self.routing_key = None if routing_key is None else Pattern(routing_key)
        """Pattern of routing keys; None: the scope grants none."""

    def grants(self, kind: str, vhost: str, name: str) -> bool:
        """Return whether the scope grants a kind of access to a queue or exchange."""
        return self.kind == kind and self.vhost.matches(vhost) and self.name.matches(name)

    def text(self) -> str:
        """Return the scope as a token has it, without its prefix."""
        parts = [self.vhost, self.name] if self.routing_key is None else [self.vhost, self.name, self.routing_key]
        return f"{self.kind}:{'/'.join([part.text() for part in parts])}"


class TokenRules(Rules):
    """Rules of the token with which a client logged in, or of a later token (`replace`)."""

    def __init__(self, scopes: Sequence[str]) -> None:
        super().__init__(Epoch())
        self._scopes: list[Scope] = []
        self._tags: list[str] = []
        self._read(scopes)

    def replace(self, other: TokenRules) -> None:
        """Apply the scopes of a newer token of the same user."""
        self._scopes = other._scopes
        self._tags = other._tags
        self.epoch.count += 1

    def scopes(self) -> list[str]:
        """Return scopes that make the same rules."""
        return [TAG + tag for tag in self._tags] + [scope.text() for scope in self._scopes]

    def _read(self, scopes: Sequence[str]) -> None:
        for text in scopes[:SCOPES_MOST]:
            if len(text) > PATTERN_OCTETS:
                continue
            if text.startswith(TAG):
                tag = text[len(TAG) :]
                if tag and tag not in self._tags:
                    self._tags.append(tag)
                continue
            kind, _, patterns = text.partition(":")
            parts = patterns.split("/")
            if kind in PERMISSION_KINDS and 2 <= len(parts) <= 3:
                self._scopes.append(Scope(kind, parts[0], parts[1], parts[2] if len(parts) == 3 else None))

    @override
    def enters(self, vhost: str) -> bool:
        """See `Rules.enters`: any scope for the virtual host suffices (as in RabbitMQ)."""
        return any(scope.vhost.matches(vhost) for scope in self._scopes)

    @override
    def permits(self, kind: str, vhost: str, name: str) -> bool:
        return any(scope.grants(kind, vhost, name) for scope in self._scopes)

    @override
    def permits_topic(self, kind: str, vhost: str, exchange: str, routing_key: str) -> bool:
        """See `Rules.permits_topic`: only scopes with a routing key grant it (as in RabbitMQ)."""
        for scope in self._scopes:
            keys = scope.routing_key
            if keys is not None and scope.grants(kind, vhost, exchange) and keys.matches(routing_key):
                return True
        return False

    @override
    def tags(self) -> list[str]:
        return self._tags


def scopes_of(claim: object, prefix: str) -> list[str]:
    """Return the scopes of a claim that begin with the prefix, without it: texts of a list, or words of a text."""
    if isinstance(claim, str):
        words: list[object] = list(claim.split())
    elif isinstance(claim, list):
        words = claim
    else:
        return []
    return [word[len(prefix) :] for word in words if isinstance(word, str) and word.startswith(prefix)]


def _decoded(text: str) -> str | None:
    """Return a part of a pattern without its percent signs; None if it is not UTF-8."""
    try:
        return unquote_plus(text, errors="strict")
    except UnicodeDecodeError:
        return None


def _encoded(text: str) -> str:
    """Return a text as a part of a pattern."""
    for character in RESERVED:
        text = text.replace(character, f"%{ord(character):02X}")
    return text


class TokenError(PenstockError):
    """Token that is refused; the text never quotes the token."""


class TokenKey:
    """Key that signs tokens, and its permitted algorithms."""

    def __init__(self, key: Any, algorithms: Sequence[str]) -> None:
        self.key = key
        self.algorithms = list(algorithms)


@mypyc_attr(allow_interpreted_subclasses=True)
class TokenKeys:
    """Keys of an identity provider."""

    def find(self, key_id: str) -> TokenKey:
        """Return a key by its id; "" is the only key. Called in a thread, and may wait. Raises TokenError."""
        raise NotImplementedError


class TokenPolicy:
    """Conditions for tokens, and the meaning of their claims."""

    def __init__(self, resource_server: str, keys: TokenKeys) -> None:
        self.resource_server = resource_server
        """Name of this broker at the identity provider: each token must have the name in its audience."""
        self.keys = keys
        self.scope_prefix: str = resource_server + "."
        """Prefix of the scopes for this broker."""
        self.issuer: str = ""
        """Issuer that each token must name; empty: any issuer."""
        self.leeway_s: int = 30
        """Most seconds by which the clocks may differ."""
        self.name_claims: list[str] = ["sub", "client_id"]
        """Claims with the name of the user; the first present claim counts."""
        self.scope_claims: list[str] = ["scope"]
        """Claims with scopes; all count."""


def looks_like_token(password: str) -> bool:
    """Return whether a password may be a token: three parts in base64url, the first of which begins an object."""
    return password.startswith("ey") and password.count(".") == 2


class TokenCheck(CredentialCheck):
    """Check of one token."""

    def __init__(self, now: float, policy: TokenPolicy, token: str) -> None:
        """`now` is the wall-clock time in seconds."""
        self.user = ""
        self.remote = True
        self.expires: float = math.inf
        """Wall-clock time in seconds at which the token expires, leeway included; infinity for never."""
        self._policy = policy
        self._token = token
        self._now = now
        self._rules: TokenRules | None = None
        self._error: str = "token was not verified"

    @override
    def is_slow(self) -> bool:
        return True

    @override
    def verify(self) -> None:
        try:
            self._accept(self._claims())
            self._error = ""
        except TokenError as error:
            self._error = str(error)

    @override
    def refusal(self) -> str:
        return self._error

    @override
    def rules(self) -> Rules | None:
        return self._rules

    @override
    def expires_at(self) -> float:
        return self.expires

    def _claims(self) -> dict[str, Any]:
        """Return the claims of the token. Raises TokenError unless it is signed by a known key."""
        import jwt  # The extra `oauth`, which loads slowly.

        if len(self._token) > TOKEN_OCTETS:
            raise TokenError(f"token has {len(self._token)} bytes; the most is {TOKEN_OCTETS}")
        try:
            header = jwt.get_unverified_header(self._token)
            key_id = header.get("kid", "")
            algorithm = header.get("alg")
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            raise TokenError("password is no token: its header cannot be read") from None
        if not isinstance(key_id, str) or not isinstance(algorithm, str):
            raise TokenError("header of the token has a kid or an alg that is no text")
        key = self._policy.keys.find(key_id)
        if algorithm not in key.algorithms:
            raise TokenError(
                f"token is signed with {_shown(algorithm)}; its key permits {', '.join(key.algorithms)} only"
            )
        try:
            claims = jwt.decode(self._token, key.key, algorithms=key.algorithms, options=_UNCHECKED)
        except jwt.InvalidSignatureError:
            raise TokenError("token is signed by another than the key that it names") from None
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            raise TokenError(f"token cannot be read ({type(error).__name__})") from None
        fields: dict[str, Any] = claims
        return fields

    def _accept(self, claims: dict[str, Any]) -> None:
        """Check the claims. Raises TokenError."""
        policy = self._policy
        audience = claims.get("aud")
        audiences = [audience] if isinstance(audience, str) else audience
        if not isinstance(audiences, list) or policy.resource_server not in audiences:
            raise TokenError(f"audience of the token does not include '{policy.resource_server}', resource-server-id")
        if policy.issuer and claims.get("iss") != policy.issuer:
            raise TokenError(f"issuer of the token is not '{policy.issuer}'")
        self._check_times(claims)
        names = [claims[claim] for claim in policy.name_claims if isinstance(claims.get(claim), str) and claims[claim]]
        if not names:
            raise TokenError(f"token names no user; claims that may are {', '.join(policy.name_claims)}")
        flaw = name_flaw(names[0])
        if flaw:
            raise TokenError(f"name {_shown(names[0])} of the token's user {flaw}")
        scopes: list[str] = []
        for claim in policy.scope_claims:
            scopes += scopes_of(claims.get(claim), policy.scope_prefix)
        if len(scopes) > SCOPES_MOST:
            raise TokenError(f"token has {len(scopes)} scopes; the most is {SCOPES_MOST}")
        self.user = names[0]
        self._rules = TokenRules(scopes)

    def _check_times(self, claims: dict[str, Any]) -> None:
        leeway = self._policy.leeway_s
        expires, begins, issued = _time(claims, "exp"), _time(claims, "nbf"), _time(claims, "iat")
        if expires is not None:
            if expires + leeway <= self._now:
                raise TokenError(expired_words(expires, self._now))
            self.expires = expires + leeway
        for what, time in (("begins", begins), ("was issued", issued)):
            if time is not None and time - leeway > self._now:
                raise TokenError(
                    f"token {what} {time - self._now:,.0f} s in the future: the clock here or at its issuer is wrong"
                )


_UNCHECKED: Final[Any] = {
    "verify_signature": True,
    **{f"verify_{claim}": False for claim in ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")},
    "require": [],
}
"""Options of PyJWT: the signature; claims are checked here, with the broker's clock."""


def expired_words(expires: float, now: float) -> str:
    """Return the sentence about an expired token, in the words of RabbitMQ's plugin; times are seconds of Unix."""
    return f"provided JWT token has expired at timestamp {expires:.0f} (validated at {now:.0f})"


def _time(claims: dict[str, Any], name: str) -> float | None:
    """Return a time of the claims, None without it. Raises TokenError if the time is no number (RFC 7519 section 2)."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TokenError(f"{name} of the token is no number")
    if not -1e15 < value < 1e15:
        raise TokenError(f"{name} of the token is no time")
    return float(value)


def _shown(text: str) -> str:
    return repr(text[:SHOWN_LETTERS])
