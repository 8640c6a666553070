"""Objects that a process keeps: a count that grows with repeated work shows a leak, however little memory it takes."""

from __future__ import annotations

import gc
from collections import Counter, deque
from collections.abc import Callable
from itertools import pairwise

CONTAINERS = frozenset({dict, list, set, deque})
"""Types whose entries are counted."""


def kept_objects() -> Counter[str]:
    """Return the number of live objects that the garbage collector knows by type, and the entries of containers.

    Numbers and texts are no such objects; the containers that keep them have more entries.
    """
    gc.collect()
    found: Counter[str] = Counter()
    for each in gc.get_objects():
        name = f"{type(each).__module__}.{type(each).__qualname__}"
        found[name] += 1
        if type(each) in CONTAINERS:
            found[f"entries of {name}"] += len(each)
    return found


PARTS = 3
"""Parts of a run; in the first ones modules are imported, and caches fill."""


def growth(step: Callable[[], object], steps: int) -> Counter[str]:
    """Return how many objects of each type `steps` steps leave behind, in the last of `PARTS` such parts.

    A step that keeps something keeps at least one object each time, in every part. Types that have grown by fewer
    objects, or not in every part, are left out: caches that fill once, and counters of the interpreter.
    """
    counts = [kept_objects()]
    for _ in range(PARTS):
        for _ in range(steps):
            step()
        counts.append(kept_objects())
    grown = [{name: after[name] - before[name] for name in after} for before, after in pairwise(counts)]
    kept = {name for name in grown[-1] if all(part.get(name, 0) >= steps / 2 for part in grown)}
    return Counter({name: grown[-1][name] for name in kept})
