"""Samples of one queue for the flow log: its state at the last look, and the sizes and publishers of what came since.

Theory of operation. Every message costs one comparison: the queue's next message to sample is known by its sequence. A
sampled message stands for all since the one before. A look fits the gap between two samples to the rate, and it doubles
after every `SAMPLES_A_GAP` samples. So a queue has some `SAMPLES_A_GAP` samples a second whatever its rate, and all
messages of a slow queue are sampled. The steps vary around the gap, so that no pattern of arrivals keeps time with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

if TYPE_CHECKING:
    from penstock.flow.level import Thresholds

SAMPLES_A_GAP: Final = 64
"""Samples after which the gap doubles. A share estimated from so many has a standard error of 6 % at most."""
GAP_MOST: Final = 1 << 20
"""Widest gap, in messages."""
SENDERS_MOST: Final = 64
"""Publishers of one queue that are remembered between two rounds; samples of further ones count as nobody's."""
SIZES: Final = 41
"""Powers of two that are told apart; larger messages count with the largest."""


class ArrivalSamples:
    """Sampled arrivals of one queue: how many messages had which size, and came from whom."""

    __slots__ = ("sizes", "senders", "_gap", "_step", "_seed", "_taken")

    def __init__(self) -> None:
        self.sizes: list[int] = []
        """Messages by the power of two of their charge: entry n counts charges from 2**(n-1) to 2**n - 1."""
        self.senders: dict[str, int] = {}
        """Messages by the name of their publisher."""
        self._gap: i64 = 1
        self._step: i64 = 1
        """Messages for which the next sample stands."""
        self._seed: i64 = 1
        self._taken: i64 = 0

    def add(self, sender: str, charge: i64) -> i64:
        """Add a sample; return how many messages later the next one is due."""
        size: i64 = 0
        while charge > 0 and size < SIZES - 1:
            charge >>= 1
            size += 1
        while len(self.sizes) <= size:
            self.sizes.append(0)
        weight = int(self._step)
        self.sizes[size] += weight
        if sender in self.senders or len(self.senders) < SENDERS_MOST:
            self.senders[sender] = self.senders.get(sender, 0) + weight
        self._taken += 1
        if self._taken >= SAMPLES_A_GAP and self._gap < GAP_MOST:
            self._taken = 0
            self._gap *= 2
        return self._next_step()

    def fit(self, messages: i64) -> i64:
        """Fit the gap to so many messages a look; return how many messages later the next sample is due."""
        self._gap = messages // SAMPLES_A_GAP
        if self._gap < 1:
            self._gap = 1
        elif self._gap > GAP_MOST:
            self._gap = GAP_MOST
        self._taken = 0
        return self._next_step()

    def _next_step(self) -> i64:
        # A linear congruential generator (the constants of POSIX's rand) is enough to leave any pattern.
        self._seed = (self._seed * 1103515245 + 12345) & 0x7FFFFFFF
        self._step = 1 + (self._seed >> 8) % (2 * self._gap - 1)
        return self._step

    def take_sizes(self) -> list[int]:
        """Take the sizes since the last call."""
        sizes = self.sizes
        self.sizes = []
        return sizes

    def take_senders(self) -> dict[str, int]:
        """Take the publishers since the last call."""
        senders = self.senders
        self.senders = {}
        return senders


class LastLook:
    """State of a queue when the flow log looked at it last. Counts are totals."""

    __slots__ = (
        "at",
        "messages",
        "bytes",
        "open",
        "tail",
        "removed_bytes",
        "settlements",
        "delivered",
        "delivered_bytes",
        "recorded_at",
        "thresholds",
        "refused",
        "refused_bytes",
        "arrivals",
    )

    def __init__(self, now: float) -> None:
        self.at: float = now
        """Time of the look: monotonic seconds."""
        self.messages: i64 = 0
        self.bytes: i64 = 0
        self.open: bool = True
        self.tail: i64 = 0
        self.removed_bytes: i64 = 0
        self.settlements: i64 = 0
        self.delivered: i64 = 0
        self.delivered_bytes: i64 = 0
        self.thresholds: Thresholds | None = None
        """The thresholds that were recorded last; None for none."""
        self.recorded_at: float = now
        """Time when they were recorded (monotonic seconds)."""
        self.refused: i64 = 0
        self.refused_bytes: i64 = 0
        """Publishes refused since."""
        self.arrivals: ArrivalSamples | None = None
        """Sampled arrivals; None before sampling has begun."""
