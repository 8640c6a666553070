"""Suspended links: unsettled deliveries of links that were detached without being closed, until their resumption.

Theory of operation. A link has a key: virtual host, user, container, direction and name. Another attach with the key of
an attached link steals that link (section 2.6.1). A link whose terminus outlives its detach is suspended by the detach,
or by the end of its session or connection (section 2.6.13). The broker keeps the link until its terminus expires
(section 3.5.6): the timeout begins with the event that the expiry policy names.

A receiver's unacknowledged messages stay with its link, and go to no other consumer. When the link expires, its
messages return to their queue. If the terminus lasts until its session ends, as by default, the messages stay in the
session. The session can still settle them, until the link is resumed or the session ends. A sender's link keeps the
outcomes that were not sent. A message in its queue is accepted, even if its outcome is withheld or waits for fsync: no
link survives a restart. A held message is dropped as if it had never come.

Bounds: `PER_CONTAINER`, and two pools: of links, and of outcomes for senders. At a bound the longest-suspended link
expires: of the container, or of the user with the most. No link is suspended for longer than `LONGEST_S`, or the
acknowledgement timeout of its queue.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.broker import Broker
from penstock.errors import Fenced
from penstock.flow.pool import IdleUnits, PoolHolder, PoolUnit
from penstock.flow.timers import NEVER, TimerHandler
from penstock.protocols.amqp10.delivery_tags import StoredTags
from penstock.protocols.amqp10.link import Link, LinkKey
from penstock.settings.pools import OUTCOMES, SUSPENDED
from penstock.wire.amqp10.composite import Composite

PER_CONTAINER: Final = 1000
"""Most suspended links of a container."""
LONGEST_S: Final = 1800.0
"""Seconds after which any suspended link expires: RabbitMQ's acknowledgement timeout."""
POLICY_DETACH: Final = "link-detach"
POLICY_SESSION: Final = "session-end"
POLICY_CONNECTION: Final = "connection-close"
POLICY_NEVER: Final = "never"
"""Expiry policies (section 3.5.6)."""
SHARED: Final = "shared"
"""Capability of a shared subscription: its messages are for all of its links, so a suspended link keeps none."""


class Expiry:
    """Expiry policy and timeout of a terminus."""

    def __init__(self, terminus: Composite | None) -> None:
        self.policy: str = POLICY_DETACH
        self.timeout_s: float = 0.0
        if terminus is not None:
            self.policy = terminus.text("expiry_policy")
            self.timeout_s = float(terminus.number("timeout", 0))
            if SHARED in terminus.texts("capabilities"):
                self.policy, self.timeout_s = POLICY_DETACH, 0.0

    def suspends(self) -> bool:
        """Return whether links are suspended.

        A terminus that expires with its session and has no timeout, the default, expires at once.
        """
        return self.timeout_s > 0 or self.policy == POLICY_NEVER or self.policy == POLICY_CONNECTION

    def lasts_for_session(self) -> bool:
        """Return whether the terminus of a detached link lasts until its session ends, as by default."""
        return self.policy == POLICY_SESSION


class _Timer(TimerHandler):
    """Timer of one suspended link."""

    def __init__(self, link: SuspendedLink) -> None:
        super().__init__()
        self._link = link

    @override
    def on_deadline(self, now: float) -> float:
        self._link.owner.expire(self._link)
        return NEVER


class SuspendedLink(PoolUnit):
    """Suspended link: of a receiver with its unsettled messages, or of a sender with the outcomes of its messages."""

    def __init__(self, owner: SuspendedLinks, key: LinkKey, expiry: Expiry) -> None:
        self.owner = owner
        self.holder = PoolHolder(key[1], key[0])
        self.timer: _Timer | None = None
        """Timer while the link is suspended."""
        self.key = key
        self.expiry = expiry
        self.connection_number: int = 0
        self.session: object = None
        """Session that the link was attached on; None after that session has ended."""
        self.weight: i64 = 0
        """Outcomes of the sender."""

    def on_session_ended(self) -> bool:
        """Prepare for the end of the session; return whether the link keeps anything for its timeout."""
        return True

    def release(self) -> None:
        """Release the deliveries: the link has expired, or its peer has lost the link's state."""
        raise NotImplementedError

    def longest_s(self) -> float:
        """Return the most seconds that the link may be suspended."""
        return LONGEST_S


class SuspendedSender(SuspendedLink):
    """Suspended link of a sender: outcomes that the sender does not know yet, by delivery-tag."""

    def __init__(self, owner: SuspendedLinks, key: LinkKey, expiry: Expiry, outcomes: dict[bytes, bytes]) -> None:
        super().__init__(owner, key, expiry)
        self.outcomes = outcomes
        """Encoded delivery states."""
        self.weight = len(outcomes)

    @override
    def release(self) -> None:
        self.outcomes = {}


class SuspendedLinks:
    """Attached links by key, and suspended links, of one broker."""

    def __init__(self, broker: Broker) -> None:
        self.broker: Final = broker
        self._attached: dict[LinkKey, Link] = {}
        self._suspended: dict[LinkKey, SuspendedLink] = {}
        """Suspended links by key, the longest-suspended first."""
        self._of_container: dict[tuple[str, str, str], dict[SuspendedLink, None]] = {}
        self._of_connection: dict[int, dict[SuspendedLink, None]] = {}
        """Suspended links whose timeout has not begun, by the number of their connection."""
        self.links = broker.pools.of(SUSPENDED)
        self.outcomes = broker.pools.of(OUTCOMES)
        """Outcomes of all suspended senders."""
        self._by_links = IdleUnits(self.links)
        self._by_outcomes = IdleUnits(self.outcomes)
        self.stored_tags = StoredTags(broker.gates, broker.pools)
        """Room for the tags of attached senders."""

    # Attached

    def attached(self, key: LinkKey) -> Link | None:
        """Return the attached link with this key; None if there is none."""
        return self._attached.get(key)

    def steal(self, key: LinkKey) -> None:
        """Detach the attached link with this key: another link takes its name."""
        link = self._attached.get(key)
        if link is not None and link.session.is_open():
            link.detach(Fenced(f"link '{key[4]}' of container '{key[2]}' was attached again"), False)

    def add(self, key: LinkKey, link: Link) -> None:
        """Add an attached link."""
        self._attached[key] = link

    def forget(self, key: LinkKey, link: Link) -> None:
        """Remove a link that is no longer attached."""
        if self._attached.get(key) is link:
            del self._attached[key]

    # Suspended

    def suspend(self, link: SuspendedLink, session: object, connection_number: int) -> None:
        """Suspend a link, after its detach."""
        before = self.take(link.key)
        if before is not None:
            before.release()
        container = self._of_container.setdefault(link.key[:3], {})
        if len(container) >= PER_CONTAINER:
            self.expire(next(iter(container)))
        self._make_room(self._by_links, 1)
        self._make_room(self._by_outcomes, link.weight)
        self._suspended[link.key] = link
        self._of_container.setdefault(link.key[:3], {})[link] = None
        self.links.add(link.holder, 1)
        self._by_links.rest(link)
        if link.weight > 0:
            self.outcomes.add(link.holder, link.weight)
            self._by_outcomes.rest(link)
        policy = link.expiry.policy
        link.timer = _Timer(link)
        self.broker.timers.add(link.timer, self.broker.now + link.longest_s())
        if policy == POLICY_DETACH:
            self._begin_timeout(link)
        elif policy != POLICY_NEVER:
            link.session = session
            link.connection_number = connection_number
            self._of_connection.setdefault(connection_number, {})[link] = None

    def _make_room(self, idle: IdleUnits, units: i64) -> None:
        while True:
            oldest = idle.to_displace(units)
            if not isinstance(oldest, SuspendedLink):
                return
            self.expire(oldest)

    def take(self, key: LinkKey) -> SuspendedLink | None:
        """Remove and return the suspended link with this key; None if there is none."""
        link = self._suspended.pop(key, None)
        if link is None:
            return None
        self.links.give(link.holder, 1)
        self._by_links.wake(link)
        if link.weight > 0:
            self.outcomes.give(link.holder, link.weight)
            self._by_outcomes.wake(link)
        if link.timer is not None:
            self.broker.timers.drop(link.timer)
            link.timer = None
        container = self._of_container[key[:3]]
        del container[link]
        if not container:
            del self._of_container[key[:3]]
        self._forget_connection(link)
        return link

    def expire(self, link: SuspendedLink) -> None:
        """Expire a suspended link."""
        if self._suspended.get(link.key) is link:
            self.take(link.key)
            link.release()

    def on_session_ended(self, session: object, connection_number: int) -> None:
        """Begin the timeouts of links that last until the end of their session."""
        for link in list(self._of_connection.get(connection_number, {})):
            if link.session is session and link.expiry.policy == POLICY_SESSION:
                if link.on_session_ended():
                    self._begin_timeout(link)
                else:
                    self.expire(link)

    def on_connection_ended(self, connection_number: int) -> None:
        """Begin the timeouts of links that last until the end of their connection."""
        for link in list(self._of_connection.get(connection_number, {})):
            self._begin_timeout(link)

    def count(self) -> int:
        """Return the number of suspended links."""
        return len(self._suspended)

    def _begin_timeout(self, link: SuspendedLink) -> None:
        self._forget_connection(link)
        if link.timer is not None:
            self.broker.timers.add(link.timer, self.broker.now + link.expiry.timeout_s)

    def _forget_connection(self, link: SuspendedLink) -> None:
        link.session = None
        links = self._of_connection.get(link.connection_number)
        if links is not None and link in links:
            del links[link]
            if not links:
                del self._of_connection[link.connection_number]
