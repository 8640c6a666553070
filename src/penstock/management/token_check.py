"""Checks of tokens (JWT, RFC 7519) that clients send as passwords, as with RabbitMQ's OAuth 2 plugin.

Theory of operation. The signature is verified in a thread, which may have to fetch keys. The key says which algorithms
are permitted, never the token: so neither `none` nor HMAC with a public key as its secret is accepted (RFC 8725 section
3.1). Times are compared with the broker's clock, with a leeway. Refusals are for the log, and quote no token.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from mypy_extensions import mypyc_attr
from typing_extensions import override

from penstock.access.access_table import name_flaw
from penstock.access.rules import Rules
from penstock.access.token_rules import SCOPES_MOST, TokenRules, scopes_of
from penstock.core.broker import Broker
from penstock.errors import PenstockError
from penstock.protocols.common.services import CredentialCheck

TOKEN_OCTETS: Final = 16_384
"""Longest token, in octets."""
SHOWN_LETTERS: Final = 60
"""Most characters of a text of a token that the log shows."""
ALGORITHMS: Final = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
    "oct": ("HS256", "HS384", "HS512"),
}
"""Algorithms by type of key (RFC 7518 section 6.1)."""


class TokenError(PenstockError):
    """Token that is refused; it never quotes the token."""


class TokenKey:
    """Key that signs tokens, and the algorithms that it may be used with."""

    def __init__(self, key: Any, algorithms: Sequence[str]) -> None:
        self.key = key
        self.algorithms = list(algorithms)


@mypyc_attr(allow_interpreted_subclasses=True)
class TokenKeys:
    """Keys of an identity provider."""

    def find(self, key_id: str) -> TokenKey:
        """Return a key by its id; "" is the only key. It runs in a thread, and may wait. Raises TokenError."""
        raise NotImplementedError


class TokenPolicy:
    """Conditions for tokens, and the meaning of their claims."""

    def __init__(self, resource_server: str, keys: TokenKeys) -> None:
        self.resource_server = resource_server
        """Name of this broker at the identity provider: each token must have it in its audience."""
        self.keys = keys
        self.scope_prefix: str = resource_server + "."
        """Beginning of the scopes that concern this broker."""
        self.issuer: str = ""
        """Issuer that each token must name; empty: none is asked for."""
        self.leeway_s: int = 30
        """Seconds that the clocks may differ."""
        self.name_claims: list[str] = ["sub", "client_id"]
        """Claims with the name of the user; the first that is there counts."""
        self.scope_claims: list[str] = ["scope"]
        """Claims with scopes; all count."""


def looks_like_token(password: str) -> bool:
    """Tell whether a password may be a token: three parts in base64url, the first of which begins an object."""
    return password.startswith("ey") and password.count(".") == 2


class TokenCheck(CredentialCheck):
    """Check of one token."""

    def __init__(self, broker: Broker, policy: TokenPolicy, token: str) -> None:
        self.user = ""
        self.remote = True
        self.expires: float = math.inf
        """Wall-clock time in seconds at which the token expires, leeway included; infinity for never."""
        self._broker = broker
        self._policy = policy
        self._token = token
        self._now: float = broker.now + broker.wall_offset
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
        import jwt  # The extra `oauth`; it loads slowly.

        if len(self._token) > TOKEN_OCTETS:
            raise TokenError(f"token has {len(self._token)} octets; the most is {TOKEN_OCTETS}")
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
        found: dict[str, Any] = claims
        return found

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
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "verify_iss": False,
    "verify_sub": False,
    "verify_jti": False,
    "require": [],
}
"""Options of PyJWT: the signature; claims are checked here, with the broker's clock."""


def expired_words(expires: float, now: float) -> str:
    """Return the sentence about an expired token, in the words of RabbitMQ's plugin; times are seconds of Unix."""
    return f"provided JWT token has expired at timestamp {expires:.0f} (validated at {now:.0f})"


def _time(claims: dict[str, Any], name: str) -> float | None:
    """Return a time of the claims, None without it. Raises TokenError if it is no number (RFC 7519 section 2)."""
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
