"""How much random tests try: a part in `make test`, all in `make test-long` (--hypothesis-profile=nightly).

Where both forms run in `make test`, the interpreted one tries less (--hypothesis-profile=second): its sources are those
of the compiled one, each of its examples takes two or three times as long, and most examples are the same in both.
"""

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import HealthCheck, settings

T = TypeVar("T")

CI, SECOND, NIGHTLY = "ci", "second", "nightly"
SHARES = {CI: 20, SECOND: 40, NIGHTLY: 1}
"""By which examples are divided."""

# Shared machines are slow at times; a deadline per example, or for making examples, would fail for that alone.
_SLOW = [HealthCheck.too_slow]
settings.register_profile(CI, deadline=None, suppress_health_check=_SLOW, print_blob=True, max_examples=10)
settings.register_profile(SECOND, deadline=None, suppress_health_check=_SLOW, print_blob=True, max_examples=5)
settings.register_profile(NIGHTLY, deadline=None, suppress_health_check=_SLOW, print_blob=True)


def thorough() -> bool:
    """Tell whether this is the long run."""
    return settings.get_current_profile_name() == NIGHTLY


def sample(cases: Sequence[T]) -> Sequence[T]:
    """Return the cases to try where the long run tries them all: every third."""
    return cases if thorough() else cases[::3]


def examples(count: int) -> int:
    """Return how many examples to try where the long run tries `count`: a part, by the profile."""
    return -(-count // SHARES[settings.get_current_profile_name()])
