"""Subscription of a source: its queues by server, and the start of new queues; without I/O."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pyspark_penstock.errors import OptionError
from pyspark_penstock.parsing import Address, Start


@dataclass(frozen=True, slots=True)
class Subscription:
    """Queues of a source; exactly one of `names`, `pattern` and `assigned` is set."""

    names: tuple[str, ...] | None
    """The same queues on every server."""
    pattern: str | None
    """Regular expression of queues: queues that match it as a whole, now and later, on every server."""
    assigned: tuple[tuple[Address, tuple[str, ...]], ...] | None
    """Queues of each server."""

    @property
    def option(self) -> str:
        """Name of the option that set the subscription."""
        return "subscribe" if self.names is not None else "subscribePattern" if self.pattern is not None else "assign"

    def __str__(self) -> str:
        """Return the queues as text."""
        if self.assigned is not None:
            return "; ".join(f"{', '.join(queues)} of {server}" for server, queues in self.assigned)
        return ", ".join(self.names) if self.names is not None else f"queues that match '{self.pattern}'"

    def of(self, server: Address) -> list[str]:
        """Return the queues named for a server; none for a pattern."""
        if self.assigned is not None:
            return [queue for each, queues in self.assigned if each == server for queue in queues]
        return list(self.names or ())

    def matching(self, names: Iterable[str]) -> list[str]:
        """Return the names that match the pattern, in order."""
        if self.pattern is None:
            return []
        matches = re.compile(self.pattern).fullmatch
        return sorted(name for name in names if matches(name))

    def may_have(self, queue: str) -> bool:
        """Return whether a queue of this name can be part of the subscription."""
        if self.pattern is not None:
            return re.fullmatch(self.pattern, queue) is not None
        if self.assigned is not None:
            return any(queue in queues for _, queues in self.assigned)
        return queue in (self.names or ())


@dataclass(frozen=True, slots=True)
class Starting:
    """Start of queues that are new to the cursor."""

    offsets: str | dict[str, Start | dict[Address, Start]]
    """``earliest``, ``latest``, or a start by queue, or by queue and server; queues that are not named begin at the
    earliest."""
    time: int | None
    """Microseconds since the epoch: a queue begins at its first message from then on. None without such a time."""

    def of(self, server: Address, queues: Iterable[str], running: bool) -> str | dict[str, Start]:
        """Return the starts of queues on a server, in the broker's format; a time is not included.

        `running`: the queues have joined a running query. Then all of their messages are new, and ``latest`` would skip
        messages from before the look-up.
        """
        if not isinstance(self.offsets, dict):
            return "earliest" if running else self.offsets
        found: dict[str, Start] = {}
        for queue in queues:
            start = self.offsets.get(queue, "earliest")
            found[queue] = start.get(server, "earliest") if isinstance(start, dict) else start
        return found


def checked_subscription(
    names: tuple[str, ...] | None,
    pattern: str | None,
    assigned: tuple[tuple[Address, tuple[str, ...]], ...] | None,
    servers: tuple[Address, ...],
) -> Subscription:
    """Return the subscription in the options.

    Raises `OptionError` for no subscription or several, and for servers of ``assign`` that differ from the option
    ``servers``.
    """
    given = {"subscribe": names, "subscribePattern": pattern, "assign": assigned}
    several = [option for option, value in given.items() if value is not None]
    if not several:
        raise OptionError("the penstock source needs the option subscribe (or subscribePattern, or assign)")
    if len(several) > 1:
        raise OptionError(f"options {' and '.join(several)} exclude each other: give one of them")
    if assigned is not None and {server for server, _ in assigned} != set(servers):
        odd = sorted({server for server, _ in assigned} ^ set(servers))[0]
        if odd in servers:
            raise OptionError(f"option assign has no queues for {odd}, which option servers names: leave it out there")
        raise OptionError(f"option assign names {odd}, which option servers does not: add it there")
    return Subscription(names, pattern, assigned)


def check_starting(
    starting: Starting, subscription: Subscription, servers: tuple[Address, ...], option: str = "starting"
) -> None:
    """Check that starts (or ends, by the name of the option) name queues and servers of the subscription.

    Raises `OptionError`.
    """
    offsets = starting.offsets
    if option == "starting" and starting.time is not None and offsets != "earliest":
        raise OptionError("options startingTimestamp and startingOffsets exclude each other: give one of them")
    if not isinstance(offsets, dict):
        return
    for queue in sorted(offsets):
        if not subscription.may_have(queue):
            raise OptionError(f"option {option}Offsets names the queue '{queue}', which {subscription.option} does not")
        start = offsets[queue]
        for server in sorted(start) if isinstance(start, dict) else ():
            if server not in servers:
                raise OptionError(
                    f"option {option}Offsets names {server} for the queue '{queue}', which option servers does not"
                )
