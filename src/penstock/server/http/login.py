"""Logins and rights of HTTP requests: passwords and tokens, and what tags and virtual hosts permit."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

from starlette.requests import Request

from penstock.access.permission import ADMINISTRATOR, MANAGEMENT, MONITORING, POLICYMAKER
from penstock.access.rules import CredentialCheck, Rules, UserRules
from penstock.access.tokens import looks_like_token
from penstock.connections.log_line import LOGIN
from penstock.connections.login import LoginAttempt, LoginListener
from penstock.connections.peer import is_loopback, network_of
from penstock.connections.sasl_mechanisms import PLAIN, is_permitted
from penstock.driver.driver import BrokerDriver
from penstock.management.operation import ENTERED, SEEN, Need
from penstock.server.http.request import HttpError, Identity, http_actor, is_forwarded

CHALLENGE: Final = {"WWW-Authenticate": 'Basic realm="Penstock"'}


async def login(http_request: Request, driver: BrokerDriver) -> Identity:
    """Return the user of the request. Raises HttpError (401) without a reason; the reason is logged."""
    kind, _, coded = http_request.headers.get("authorization", "").partition(" ")
    host = http_request.client.host if http_request.client is not None else "unknown"
    kind = kind.lower()
    identity: Identity | None = None
    protected = http_request.url.scheme == "https" or (is_loopback(host) and not is_forwarded(http_request))
    if kind in ("basic", "bearer") and not is_permitted(driver.connection_limits, PLAIN, protected):
        driver.log_queue.add_refusal(LOGIN, f"[http {host}] login refused: PLAIN is not permitted without TLS")
    elif kind == "basic":
        try:
            user, _, password = base64.b64decode(coded, validate=True).decode().partition(":")
        except ValueError:  # Not ASCII, base64 or UTF-8.
            driver.log_queue.add_refusal(LOGIN, f"[http {host}] login refused: the credentials cannot be read")
        else:
            identity = await _identity(http_request, driver, kind, user, password, host)
    elif kind == "bearer":
        if looks_like_token(coded):
            identity = await _identity(http_request, driver, kind, "", coded, host)
        else:
            driver.log_queue.add_refusal(LOGIN, f"[http {host}] login refused: what it bears is no token")
    if identity is None:
        raise HttpError(401, "not_authorized", "Login failed", CHALLENGE)
    return identity


def _check_rate(http_request: Request, driver: BrokerDriver, kind: str, user: str, address: str) -> None:
    """Count a login that begins. Raises HttpError (429) beyond a limit of logins a second."""
    refusal = driver.services.login_rate.refusal(address, driver.broker.now)
    if refusal:
        driver.audit.login(http_actor(http_request, user), kind, refusal, summed=True)
        host = http_request.client.host if http_request.client is not None else "unknown"
        driver.log_queue.add_refusal(LOGIN, f"[http {host}] login refused: {refusal}")
        raise HttpError(429, "too_many_requests", f"login refused: {refusal}", {"Retry-After": "1"})


class _Waiter(LoginListener):
    """Receiver of the outcome of a login, for a coroutine."""

    def __init__(self, outcome: asyncio.Future[tuple[str, float]]) -> None:
        self.outcome = outcome

    def on_login(self, check: CredentialCheck, refusal: str, delay_s: float) -> None:
        """See `LoginListener.on_login`."""
        if not self.outcome.done():
            self.outcome.set_result((refusal, delay_s))


async def _identity(
    http_request: Request, driver: BrokerDriver, kind: str, user: str, password: str, host: str
) -> Identity | None:
    """Return the user of credentials; None for refused credentials, after the delay set by `Backoff`."""
    local = is_loopback(host) and not is_forwarded(http_request)
    address = network_of(host, local)
    services = driver.services
    check = services.password_check(user, password, local)
    check.address = host
    if check.is_slow():  # A cached password is not verified again, and does not count as a login.
        _check_rate(http_request, driver, kind, check.user, address)
    waiter = _Waiter(asyncio.get_running_loop().create_future())
    attempt = LoginAttempt(services, check, address, waiter)
    attempt.start()
    try:
        refusal, delay_s = await waiter.outcome
    finally:
        attempt.cancel()
    driver.audit.login(http_actor(http_request, check.user), kind, refusal, summed=True)
    if not refusal:
        rules = check.rules() or UserRules(driver.broker.access, check.user)
        return Identity(check.user, rules, check.expires_at())
    driver.log_queue.add_refusal(LOGIN, f"[http {host}] login refused: {refusal}")
    if delay_s > 0:
        waiting = services.backoff.wait(check.user, address)
        try:
            await asyncio.sleep(delay_s)
        finally:
            services.backoff.answered(waiting)
    return None


REASONS: Final = {
    MANAGEMENT: "Not management user",
    MONITORING: "Not monitor user",
    ADMINISTRATOR: "Not administrator user",
    POLICYMAKER: "User not authorised to access object",
}
"""RabbitMQ's words for a missing tag."""
NO_VHOST: Final = "User not authorised to access virtual host"


def not_authorised(reason: str) -> HttpError:
    """Return the error for a user without the right; it has no challenge, so that browsers ask for no password."""
    return HttpError(401, "not_authorised", reason)


def refusal_of(rules: Rules, need: Need, parts: Mapping[str, str]) -> HttpError | None:
    """Return the error for a request that the user's tag or the virtual host does not permit; None if it is permitted.

    `parts` are the parts of the path as sent.
    """
    for tag in (MANAGEMENT, need.tag):
        if not rules.has_tag(tag):
            return not_authorised(REASONS[tag])
    if "vhost" not in parts or need.vhost not in (ENTERED, SEEN) or rules.has_tag(ADMINISTRATOR):
        return None
    if need.vhost == SEEN and rules.has_tag(MONITORING):
        return None
    return None if rules.enters(unquote(parts["vhost"])) else not_authorised(NO_VHOST)
