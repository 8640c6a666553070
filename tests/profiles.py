"""How much random tests try: a part in `make test`, all in `make test-long` (--hypothesis-profile=nightly)."""

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import HealthCheck, settings

T = TypeVar("T")

CI, NIGHTLY = "ci", "nightly"

# Shared machines are slow at times; a deadline per example, or for making examples, would fail for that alone.
_SLOW = [HealthCheck.too_slow]
settings.register_profile(CI, deadline=None, suppress_health_check=_SLOW, print_blob=True, max_examples=30)
settings.register_profile(NIGHTLY, deadline=None, suppress_health_check=_SLOW, print_blob=True)


def thorough() -> bool:
    """Tell whether this is the long run."""
    return settings.get_current_profile_name() == NIGHTLY


def sample(cases: Sequence[T]) -> Sequence[T]:
    """Return the cases to try where the long run tries them all: every third."""
    return cases if thorough() else cases[::3]


def examples(count: int) -> int:
    """Return how many examples to try where the long run tries `count`: a fifth of them."""
    return count if thorough() else -(-count // 5)
