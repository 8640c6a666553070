"""Pools: amounts with a limit that all users and virtual hosts of the node share.

Theory of operation. No user can exhaust a pool: a user may take at most half of the units that other users leave free.
A virtual host may take three quarters of the units that other virtual hosts leave free, and each of its users half of
that share. In a pool that is not shared by users a virtual host may take half. So a user or virtual host without units
can always take at least one, as long as any unit is free.

A sixteenth of each pool is a reserve for operators. An operator may take three quarters of the units that others leave
free.

A pool whose units can lie idle lists them (`IdleUnits`). At the bound, the unit that is idle for longest is displaced,
from the holder with the most units.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.errors import ResourceError
from penstock.settings.pools import POOLS, USER, VHOST, PoolRow

RESERVE_PART: Final = 16
"""A pool's reserve for operators is one part of so many."""
RESERVED_FROM: Final = 8
"""Limit of a small pool whose reserve is one unit."""
SHOWN_HOLDERS: Final = 3
"""Holders that descriptions name."""


class PoolHolder:
    """One user in one virtual host, as a holder of units of pools.

    An empty user or virtual host means that the units belong to none: the share by users, or by virtual hosts, does not
    limit them.
    """

    __slots__ = ("user", "vhost", "operator")

    def __init__(self, user: str, vhost: str, operator: bool = False) -> None:
        self.user = user
        self.vhost = vhost
        self.operator = operator
        """True for an administrator or a monitor, who may use the reserve."""


STRANGER: Final = PoolHolder("", "", True)
"""Holder of units that are taken before login, for pools that serve such clients alone."""


class Pool:
    """The units in use of one pool, by user and virtual host. See the module's docstring."""

    def __init__(self, row: PoolRow, limit: i64) -> None:
        self.row = row
        self._by_user = row.shared != VHOST
        self._by_vhost = row.shared != USER
        self.limit: i64 = limit
        self.taken: i64 = 0
        self.highest: i64 = 0
        self.refused: i64 = 0
        """Requests that were refused."""
        self._operators: i64 = 0
        """Units of operators."""
        self._users: dict[str, i64] = {}
        self._vhosts: dict[str, i64] = {}
        self._parts: dict[tuple[str, str], i64] = {}
        """Units by virtual host and user."""

    def set_limit(self, limit: i64) -> None:
        """Change the limit; holders above the new limit keep their units."""
        self.limit = limit

    def of_user(self, user: str) -> i64:
        """Return the units of a user."""
        return self._users.get(user, 0)

    def of_vhost(self, vhost: str) -> i64:
        """Return the units of a virtual host."""
        return self._vhosts.get(vhost, 0)

    def of_part(self, part: tuple[str, str]) -> i64:
        """Return the units of a virtual host and user."""
        return self._parts.get(part, 0)

    def largest_part(self, asking: tuple[str, str], units: i64) -> tuple[str, str]:
        """Return the virtual host with the most units, and the user that has most of them.

        `asking` counts with so many units more, and is returned among equals.
        """
        vhost, user = asking
        most = self._vhosts.get(vhost, 0) + units
        for name, has in self._vhosts.items():
            if name != asking[0] and has > most:
                vhost, most = name, has
        if vhost != asking[0]:
            user, most = "", 0
        else:
            most = self._parts.get(asking, 0) + units
        for part, has in self._parts.items():
            if part[0] == vhost and part != asking and has > most:
                user, most = part[1], has
        return vhost, user

    def part_of(self, holder: PoolHolder) -> tuple[str, str]:
        """Return virtual host and user by which the units of a holder count; empty if the pool is not shared that
        way.
        """
        return holder.vhost if self._by_vhost else "", holder.user if self._by_user else ""

    def room(self, holder: PoolHolder) -> i64:
        """Return how many more units a holder may take; see `fits` for the first unit."""
        vhost, user = part = self.part_of(holder)
        free = self.limit - self.taken
        of_user = self._users.get(user, 0)
        if holder.operator:
            share = (3 * free - of_user) // 4 if user else free
            return share if share > 0 else 0
        free -= self._reserve_left()
        room = free
        if user:
            share = (free - of_user) // 2
            room = share if share < room else room
        if vhost:
            of_vhost = self._vhosts.get(vhost, 0)
            share = (3 * free - of_vhost) // 4 if self._by_user else (free - of_vhost) // 2
            room = share if share < room else room
            if user:
                share = (share - self._parts.get(part, 0)) // 2
                room = share if share < room else room
        return room if room > 0 else 0

    def fits(self, holder: PoolHolder, units: i64) -> bool:
        """Return whether a holder may take so many units: within its share, or as its first units."""
        if units <= self.room(holder):
            return True
        if self._parts.get(self.part_of(holder), 0) > 0:
            return False
        free = self.limit - self.taken
        return units <= (free if holder.operator else free - self._reserve_left())

    def take(self, holder: PoolHolder, units: i64) -> bool:
        """Take units if they fit; returns whether they did."""
        if not self.fits(holder, units):
            return False
        self.add(holder, units)
        return True

    def require(self, holder: PoolHolder, units: i64) -> None:
        """Take units. Raises ResourceError (506), naming pool, holder, limit and rule, if they do not fit."""
        if not self.take(holder, units):
            raise ResourceError(self.refusal(holder, units))

    def add(self, holder: PoolHolder, units: i64) -> None:
        """Count units without a limit: units from the store, or units that cannot be refused. Negative units are
        returned.
        """
        self.taken += units
        if self.taken > self.highest:
            self.highest = self.taken
        if holder.operator:
            self._operators += units
        part = self.part_of(holder)
        _count(self._users, part[1], units)
        _count(self._vhosts, part[0], units)
        left = self._parts.get(part, 0) + units
        if left > 0:
            self._parts[part] = left
        else:
            self._parts.pop(part, None)

    def give(self, holder: PoolHolder, units: i64) -> None:
        """Return units to the pool."""
        self.add(holder, -units)

    def _reserve_left(self) -> i64:
        reserve = self.limit // RESERVE_PART
        if reserve == 0 and self.limit >= RESERVED_FROM:
            reserve = 1
        left = reserve - self._operators
        return left if left > 0 else 0

    # Descriptions

    def holders(self, most: int = SHOWN_HOLDERS) -> list[tuple[str, str, int]]:
        """Return user, virtual host and units of the largest holders, the largest first."""
        ordered = sorted(self._parts.items(), key=_by_units)
        return [(part[1], part[0], int(units)) for part, units in ordered[:most]]

    def describe_holders(self) -> str:
        """Describe the largest holders."""
        return ", ".join(f"{describe_holder(user, vhost)} {units:,}" for user, vhost, units in self.holders())

    def refusal(self, holder: PoolHolder, units: i64) -> str:
        """Count a refusal, and return its reason: the pool, the largest holders, the limit and the rule."""
        self.refused += 1
        part = self.part_of(holder)
        own = int(self._parts.get(part, 0))
        who = describe_holder(part[1], part[0])
        wanted = "one more does" if units == 1 else f"{int(units):,} more {self.row.unit} do"
        return (
            f"{self.row.name}: {who} has {own:,} and {wanted} not fit into its share; all have {int(self.taken):,} of "
            f"{int(self.limit):,} {self.row.unit} (most: {self.describe_holders() or 'nobody'}). {RULE}"
        )


RULE: Final = "A user may have half of what others leave, a virtual host three quarters; a sixteenth is for operators"


@mypyc_attr(allow_interpreted_subclasses=True)
class PoolUnit:
    """An object that takes units of a pool and may become idle."""

    holder: PoolHolder


class IdleUnits:
    """Idle units of a pool by holder, and the largest holder of the pool."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self._idle: dict[tuple[str, str], dict[int, PoolUnit]] = {}
        """Units by virtual host and user; units that are idle for longest first."""
        self._largest: list[tuple[int, str, str]] = []
        """A heap of holders with idle units, by their negative number of units when they were added."""

    def __len__(self) -> int:
        return sum(len(units) for units in self._idle.values())

    def rest(self, unit: PoolUnit) -> None:
        """List a unit as the last that became idle."""
        part = self.pool.part_of(unit.holder)
        units = self._idle.get(part)
        if units is None:
            units = {}
            self._idle[part] = units
        units.pop(id(unit), None)
        units[id(unit)] = unit
        self._rank(part)

    def wake(self, unit: PoolUnit) -> None:
        """Remove a unit from the list; a unit that is not listed is ignored."""
        part = self.pool.part_of(unit.holder)
        units = self._idle.get(part)
        if units is not None:
            units.pop(id(unit), None)
            if not units:
                del self._idle[part]

    def oldest_of(self, holder: PoolHolder) -> PoolUnit | None:
        """Return the unit of a holder that is idle for longest; None if no unit is idle."""
        units = self._idle.get(self.pool.part_of(holder))
        return None if not units else next(iter(units.values()))

    def oldest_of_most(self) -> PoolUnit | None:
        """Return the unit that is idle for longest, of the holder with the most units; None if no unit is idle."""
        while self._largest:
            ranked, vhost, user = self._largest[0]
            units = self._idle.get((vhost, user))
            has = self.pool.of_part((vhost, user))
            if units and -ranked == has:
                return next(iter(units.values()))
            heappop(self._largest)
            if units:  # The holder has fewer units than when it was ranked; a holder with more units was ranked again.
                heappush(self._largest, (-int(has), vhost, user))
        return None

    def to_displace(self, units: i64) -> PoolUnit | None:
        """Return the idle unit to displace for so many more: the oldest of the holder with the most units.

        None if there is room, or if no unit is idle. For pools in which some units are always idle, so that anybody may
        use what is free.
        """
        pool = self.pool
        return self.oldest_of_most() if pool.taken + units > pool.limit else None

    def _rank(self, part: tuple[str, str]) -> None:
        heappush(self._largest, (-int(self.pool.of_part(part)), part[0], part[1]))
        if len(self._largest) > 64 + 4 * len(self._idle):
            self._largest = [(-int(self.pool.of_part(part)), part[0], part[1]) for part in self._idle]
            heapify(self._largest)


def describe_holder(user: str, vhost: str) -> str:
    """Return a holder as text."""
    if not user:
        return f"vhost '{vhost}'" if vhost else "the broker"
    return f"user '{user}' in vhost '{vhost}'" if vhost else f"user '{user}'"


def _count(by_name: dict[str, i64], name: str, units: i64) -> None:
    left = by_name.get(name, 0) + units
    if left > 0:
        by_name[name] = left
    else:
        by_name.pop(name, None)


def _by_units(part: tuple[tuple[str, str], i64]) -> tuple[int, tuple[str, str]]:
    return (-int(part[1]), part[0])


class Pools:
    """The pools of one broker, one for each shared row of the table."""

    def __init__(self) -> None:
        self._pools: dict[str, Pool] = {row.key: Pool(row, row.limit) for row in POOLS}

    def of(self, row: PoolRow) -> Pool:
        """Return the pool of a row of the table."""
        return self._pools[row.key]

    def every(self) -> list[Pool]:
        """Return all pools, in the order of the table."""
        return list(self._pools.values())
