"""Large bodies that have come."""

from __future__ import annotations

from penstock.core.large_bodies import LargeBodies, LargeBody, PieceBudget, Span


def arrived(bodies: LargeBodies, octets: bytes, frame: int = 100_000, spans: list[Span] | None = None) -> LargeBody:
    """Return a body that has come in frames."""
    arrival = bodies.begin(PieceBudget(bodies, None))
    for start in range(0, len(octets), frame):
        arrival.append(octets[start : start + frame])
    return arrival.finish(spans or [])
