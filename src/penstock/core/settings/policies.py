"""Policies: settings for the queues and exchanges of one virtual host whose names match a regular expression.

These are RabbitMQ's policies and operator policies. Of the policies that match a name the one with the highest priority
applies; among equals, the first by name.
"""

from __future__ import annotations

from bisect import insort
from typing import Any, Final

from mypy_extensions import i64

from penstock.content.properties import answers_control
from penstock.errors import PreconditionFailed, ResourceError
from penstock.settings.table import ALIASES, OF_STREAMS, OURS, POLICY, SMALLEST, SettingValue

PATTERN_OCTETS: Final = 4096
"""Longest expression."""
MEMORY_BYTES: Final = 256 * 1024
"""Memory of a compiled expression; RE2 refuses expressions that need more, and matches slower near the limit."""
CLASS_WORK: Final = 400
"""Units of work to compile a class of characters of Unicode."""


def compile_work(text: str) -> i64:
    """Return the units of work to compile an expression, approximately; Unicode's classes, such as `\\pL`, cost
    most.
    """
    if len(text) > PATTERN_OCTETS:
        return 1
    return 1 + len(text) // 2 + CLASS_WORK * (text.count("\\p") + text.count("\\P"))


class PolicyPattern:
    """A regular expression over names."""

    def __init__(self, text: str, caseless: bool = False) -> None:
        """Compile an expression, `caseless` or not. Raises PreconditionFailed (406) with RE2's reason."""
        if len(text.encode(errors="replace")) > PATTERN_OCTETS:
            raise PreconditionFailed(f"the pattern is longer than {PATTERN_OCTETS:,} bytes")
        self.text = text
        self._needed: list[Any] = []
        self._excluded: list[Any] = []
        ahead, rest = look_aheads(text)
        for excludes, part in ahead:
            (self._excluded if excludes else self._needed).append(_compiled(text, f"^(?:{part})", caseless))
        self._needed.append(_compiled(text, rest, caseless))

    def matches(self, name: str) -> bool:
        """Return whether the expression matches a name."""
        octets = name.encode(errors="surrogateescape")
        for expression in self._needed:
            if not _found(expression, octets):
                return False
        for expression in self._excluded:
            if _found(expression, octets):
                return False
        return True


def look_aheads(text: str) -> tuple[list[tuple[bool, str]], str]:
    """Split an expression: the look-aheads behind its `^`, each marked if it is negative, and the rest.

    An expression that cannot be split stays whole.
    """
    look_aheads: list[tuple[bool, str]] = []
    if not text.startswith(("^(?!", "^(?=")):
        return look_aheads, text
    at = 1
    while text.startswith(("(?!", "(?="), at):
        end, _ = _scan(text, at + 1)
        if end < 0:
            return [], text
        look_aheads.append((text[at + 2] == "!", text[at + 3 : end]))
        at = end + 1
    rest = text[at:]
    _, alternates = _scan(rest, 0)
    if alternates:
        return [], text  # `^(?!a)b|c` is `(^(?!a)b)|c`.
    return look_aheads, "^" + rest


def _scan(text: str, start: int) -> tuple[int, bool]:
    """Return the end of the group that begins before `start`, and whether it has `|` outside of groups and classes.

    The end is the index of its closing parenthesis; -1 without one, as for a whole expression.
    """
    depth = 0
    alternates = False
    at = start
    while at < len(text):
        letter = text[at]
        if letter == "\\":
            at += 1
        elif letter == "[":
            at = _end_of_class(text, at)
        elif letter == "(":
            depth += 1
        elif letter == ")":
            depth -= 1
            if depth < 0:
                return at, alternates
        elif letter == "|" and depth == 0:
            alternates = True
        at += 1
    return -1, alternates


def _end_of_class(text: str, start: int) -> int:
    """Return the index of the bracket that closes a class of characters, or the end of the text."""
    at = start + 1
    if text.startswith("^", at):
        at += 1
    if text.startswith("]", at):
        at += 1
    while at < len(text) and text[at] != "]":
        at += 2 if text[at] == "\\" else 1
    return at


def _compiled(text: str, expression: str, caseless: bool) -> Any:
    import re2  # Loaded with the first policy.

    options = re2.Options()
    options.max_mem = MEMORY_BYTES
    options.log_errors = False
    options.never_capture = True
    options.case_sensitive = not caseless
    try:
        return re2.compile(expression, options)
    except (re2.error, UnicodeEncodeError) as error:
        raise PreconditionFailed(f"the pattern '{text}' is refused by RE2: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)


def _found(expression: Any, octets: bytes) -> bool:
    return expression.search(octets) is not None


ALL: Final = "all"
QUEUES: Final = "queues"
EXCHANGES: Final = "exchanges"
"""Kinds of objects to which a policy applies, beside each type of queues (`QueueType.apply_to`)."""
OPERATOR: Final = "operator policy"
"""Operator policies, which users of RabbitMQ set for other users."""
RANK: Final = 1
"""Rank of a setting of a policy: weaker than an argument, stronger than a pattern."""
ALTERNATE: Final = "alternate-exchange"
"""The only key of an exchange: the destination of unroutable messages."""
OVERFLOW: Final = "overflow"
OVERFLOWS: Final = ("drop-head", "reject-publish", "reject-publish-dlx")
"""Values of `overflow`, and of the argument x-overflow, that RabbitMQ knows."""
LIMITS_OF_RABBITMQ: Final = SMALLEST - {"capacity-messages", "capacity-bytes", *OF_STREAMS}
"""Limits that RabbitMQ knows; in RabbitMQ all are whole numbers."""
OF_OPERATORS: Final = (*sorted(SMALLEST.difference(OF_STREAMS)), OVERFLOW)
"""Settings that an operator policy may have, in addition to those without effect."""
DEAD_LETTERS: Final = ("dead-letter-exchange", "dead-letter-routing-key", "dead-letter-strategy")
"""Keys for dead letters that are settings here."""
UPSTREAM: Final = "federation-upstream"
UPSTREAM_SET: Final = "federation-upstream-set"
UPSTREAM_PATTERN: Final = "federation-upstream-pattern"
UPSTREAM_KEYS: Final[tuple[str, ...]] = (UPSTREAM, UPSTREAM_SET, UPSTREAM_PATTERN)
"""Keys by which a policy names upstreams of federation, one of them at most."""


class UpstreamChoice:
    """The upstreams that a policy names: one, a set of them, or those whose names match an expression."""

    def __init__(self, key: str, name: str, pattern: PolicyPattern | None) -> None:
        self.key = key
        """One of `UPSTREAM_KEYS`."""
        self.name = name
        """Name of the upstream or the set, or the expression."""
        self.pattern = pattern
        """Compiled expression; None for a name."""


class Policy:
    """One policy, or operator policy, of a virtual host."""

    def __init__(self, vhost: str, name: str, pattern: PolicyPattern, definition: dict[str, object]) -> None:
        self.vhost = vhost
        self.name = name
        self.pattern = pattern
        self.definition = definition
        """Keys and values as given."""
        self.apply_to: str = ALL
        self.priority: i64 = 0
        self.operator: bool = False
        self.values: dict[str, SettingValue] = {}
        """Settings of queues, by the broker's own names."""
        self.alternate: str | None = None
        """Name of the alternate exchange of exchanges."""
        self.upstreams: UpstreamChoice | None = None
        """Upstreams of federation of the queues and exchanges; None without federation."""
        self.idle: list[str] = []
        """Keys without effect here."""
        self.excluded: dict[str, str] = {}
        """Types of queues to which the policy does not apply, each with the key that they lack."""

    def applies_to(self, kind: str) -> bool:
        """Return whether the policy is for queues of a type, or for exchanges."""
        if kind in self.excluded:
            return False
        return self.apply_to in (ALL, kind) or (self.apply_to == QUEUES and kind != EXCHANGES)

    def covers(self, kind: str, name: str) -> bool:
        """Return whether the policy matches an object; another policy may have precedence."""
        return self.applies_to(kind) and self.pattern.matches(name) and not answers_control(name)

    def precedes(self, other: Policy) -> bool:
        """Return whether this policy has precedence over another where both match."""
        return self.order() < other.order()

    def order(self) -> tuple[int, str]:
        """Return the sort key among the policies of the virtual host."""
        return (-int(self.priority), self.name)

    def title(self) -> str:
        """Return kind and name of the policy, for sentences."""
        return f"{OPERATOR if self.operator else POLICY} '{self.name}' of vhost '{self.vhost}'"

    def fields(self) -> dict[str, object]:
        """Return the attributes except name and virtual host, in RabbitMQ's form."""
        return {
            "pattern": self.pattern.text,
            "apply-to": self.apply_to,
            "priority": int(self.priority),
            "definition": self.definition,
        }

    def for_rabbitmq(self) -> Policy | None:
        """Return the policy with the keys and values that RabbitMQ accepts; None if none is left."""
        definition = {key: value for key, value in self.definition.items() if _is_of_rabbitmq(key, value)}
        if not definition:
            return None
        policy = Policy(self.vhost, self.name, self.pattern, definition)
        policy.apply_to, policy.priority, policy.operator = self.apply_to, self.priority, self.operator
        return policy

    def equals(self, other: Policy) -> bool:
        """Return whether another policy has the same content."""
        return self.fields() == other.fields()


class PolicyPair:
    """The policy and the operator policy that apply to a queue, each None if there is none."""

    def __init__(self, policy: Policy | None = None, operator: Policy | None = None) -> None:
        self.policy = policy
        self.operator = operator

    def name(self) -> str | None:
        """Return the name of the policy."""
        return None if self.policy is None else self.policy.name

    def operator_name(self) -> str | None:
        """Return the name of the operator policy."""
        return None if self.operator is None else self.operator.name

    def add_to(self, values: dict[str, SettingValue]) -> None:
        """Add the settings of both policies to the arguments of a queue.

        An argument is stronger, except for limits: of these the smallest applies. An argument `none` lifts the limit of
        a policy, but not that of an operator policy.
        """
        if self.policy is not None:
            for setting, value in self.policy.values.items():
                given = values.get(setting)
                if given is None or (setting in SMALLEST and not given.none and smaller(value, given)):
                    values[setting] = value
        if self.operator is not None:
            for setting, value in self.operator.values.items():
                given = values.get(setting)
                limits = setting in SMALLEST
                if given is None or (smaller(value, given) if limits else given.origin == POLICY):
                    values[setting] = value

    def definition(self) -> dict[str, object]:
        """Return the definition in effect of both policies, as RabbitMQ shows it (`effective_policy_definition`)."""
        merged: dict[str, object] = {} if self.policy is None else dict(self.policy.definition)
        if self.operator is None:
            return merged
        for key, value in self.operator.definition.items():
            mine = merged.get(key)
            if key in SMALLEST and isinstance(mine, int) and isinstance(value, int):
                value = min(mine, value)
            merged[key] = value
        return merged


NO_POLICIES: Final = PolicyPair()


def smaller(value: SettingValue, other: SettingValue) -> bool:
    """Return whether a limit is smaller than another."""
    return not value.none and (other.none or value.number < other.number)


def _is_of_rabbitmq(key: str, value: object) -> bool:
    """Return whether RabbitMQ accepts a key with a value, even a key without effect here."""
    if key == OVERFLOW:
        return value in OVERFLOWS
    if key in LIMITS_OF_RABBITMQ:
        return isinstance(value, int)
    return key in DEAD_LETTERS or key in OF_STREAMS or key not in {*OURS, *ALIASES}


POLICIES_A_VHOST: Final = 1_000
"""Most policies of a virtual host, of either kind: each declaration checks them."""
POLICIES_MAX: Final = 10_000
"""Most policies of a broker."""
MATCHED_A_UNIT: Final = 4096
"""Characters of a name, times those of a pattern, that RE2 matches with a unit of work, at its slowest."""


class PolicyTable:
    """Policies by virtual host and name, in the order in which they apply."""

    def __init__(self) -> None:
        self._by_name: dict[tuple[str, bool], dict[str, Policy]] = {}
        self._in_order: dict[tuple[str, bool], list[Policy]] = {}
        self._octets: dict[tuple[str, bool], int] = {}
        """Characters of all patterns."""
        self.count: int = 0

    def get(self, vhost: str, name: str, operator: bool) -> Policy | None:
        """Return a policy by name; None if there is none."""
        policies = self._by_name.get((vhost, operator))
        return None if policies is None else policies.get(name)

    def of(self, vhost: str, operator: bool) -> list[Policy]:
        """Return the policies of a virtual host, by name."""
        policies = self._by_name.get((vhost, operator), {})
        return [policies[name] for name in sorted(policies)]

    def all(self) -> list[Policy]:
        """Return the policies of all virtual hosts."""
        return [policy for policies in self._by_name.values() for policy in policies.values()]

    def work(self, vhost: str, name: str) -> i64:
        """Return the most units of work to find the policies of an object: each is matched with its name."""
        letters: i64 = len(name)
        work: i64 = 0
        for operator in (False, True):
            work += len(self._in_order.get((vhost, operator), []))
            work += self._octets.get((vhost, operator), 0) * letters // MATCHED_A_UNIT
        return work

    def put(self, policy: Policy) -> Policy | None:
        """Add a policy, or replace the policy of that name; return the former policy. Raises ResourceError (506)."""
        key = (policy.vhost, policy.operator)
        policies = self._by_name.setdefault(key, {})
        before = policies.get(policy.name)
        if before is None:
            most = POLICIES_A_VHOST if len(policies) >= POLICIES_A_VHOST else POLICIES_MAX
            if len(policies) >= POLICIES_A_VHOST or self.count >= POLICIES_MAX:
                raise ResourceError(f"there are {most:,} policies, the most that there may be; {policy.title()}"
                                    " was not set")  # fmt: skip
            self.count += 1
        else:
            self._remove(key, before)
        policies[policy.name] = policy
        insort(self._in_order.setdefault(key, []), policy, key=Policy.order)
        self._octets[key] = self._octets.get(key, 0) + len(policy.pattern.text)
        return before

    def drop(self, vhost: str, name: str, operator: bool) -> Policy | None:
        """Remove a policy; return it, or None if it did not exist."""
        key = (vhost, operator)
        policy = self._by_name.get(key, {}).pop(name, None)
        if policy is not None:
            self.count -= 1
            self._remove(key, policy)
            if not self._in_order[key]:
                del self._in_order[key]
                del self._octets[key]
                del self._by_name[key]
        return policy

    def _remove(self, key: tuple[str, bool], policy: Policy) -> None:
        self._in_order[key].remove(policy)
        self._octets[key] -= len(policy.pattern.text)

    def best(self, vhost: str, kind: str, name: str, operator: bool) -> Policy | None:
        """Return the policy that applies to an object; None without one.

        `kind` is "" for objects that cannot have a policy.
        """
        if kind:
            for policy in self._in_order.get((vhost, operator), []):
                if policy.covers(kind, name):
                    return policy
        return None

    def pair(self, vhost: str, kind: str, name: str) -> PolicyPair:
        """Return both policies that apply to a queue."""
        policy, operator = self.best(vhost, kind, name, False), self.best(vhost, kind, name, True)
        return NO_POLICIES if policy is None and operator is None else PolicyPair(policy, operator)
