"""Reading of policies: fields in RabbitMQ's form, checked against the settings and types of queues that exist here."""

from __future__ import annotations

import json
from typing import Final

from mypy_extensions import i64

from penstock.core.queue.types import TYPES
from penstock.core.settings.policies import (
    ALL,
    ALTERNATE,
    EXCHANGES,
    OF_OPERATORS,
    OPERATOR,
    QUEUES,
    RANK,
    UPSTREAM_KEYS,
    UPSTREAM_PATTERN,
    Policy,
    PolicyPattern,
    UpstreamChoice,
    compile_work,
)
from penstock.errors import BrokerError, PreconditionFailed
from penstock.settings.kind import unknown_name
from penstock.settings.read import KEYS_WITHOUT_EFFECT, check_foreign, read_settings, setting_named
from penstock.settings.table import ALIASES, OURS, POLICY
from penstock.texts import nearest

NAME_OCTETS: Final = 255
DEFINITION_OCTETS: Final = 24 * 1024
"""Most bytes of a definition: an entry of an import has at most 32 KiB."""
PRIORITY_MAX: Final = 1 << 53
NEARLY: Final = 0.8
"""Similarity (difflib) above which an unknown key counts as a misspelling of a known key."""


def apply_to_words() -> list[str]:
    """Return the values of `apply-to`."""
    words = dict.fromkeys((QUEUES, *[row.apply_to for row in TYPES.values()], EXCHANGES, ALL))
    return list(words)


def read_policy(vhost: str, name: str, fields: dict[str, object], operator: bool) -> Policy:
    """Read a policy from RabbitMQ's form: `pattern`, `definition`, and `priority` and `apply-to` if given.

    Raises PreconditionFailed (406) with one sentence that names the policy, the key and the rule.
    """
    title = f"{OPERATOR if operator else POLICY} '{name}' of vhost '{vhost}'"
    if not name or len(name.encode(errors="replace")) > NAME_OCTETS:
        raise PreconditionFailed(f"{title}: a name has 1 to {NAME_OCTETS} bytes")
    text, definition = fields.get("pattern"), _object(fields.get("definition"))
    if not isinstance(text, str):
        raise PreconditionFailed(f"{title}: 'pattern' must be a string")
    if not isinstance(definition, dict) or not definition:
        raise PreconditionFailed(f"{title}: 'definition' must be an object of at least one key and its value")
    if len(json.dumps(definition)) > DEFINITION_OCTETS:
        raise PreconditionFailed(f"{title}: its definition has more than {DEFINITION_OCTETS:,} bytes")
    try:
        pattern = PolicyPattern(text)
    except PreconditionFailed as error:
        raise PreconditionFailed(f"{title}: {error}") from None
    policy = Policy(vhost, name, pattern, definition)
    policy.operator = operator
    policy.apply_to = _apply_to(title, fields.get("apply-to"), operator)
    policy.priority = _priority(title, fields.get("priority"))
    _read_definition(policy, title)
    return policy


def reading_work(fields: dict[str, object]) -> i64:
    """Return the approximate units of work to read a policy."""
    text, definition = fields.get("pattern"), _object(fields.get("definition"))
    work = compile_work(text) if isinstance(text, str) else 1
    upstreams = definition.get(UPSTREAM_PATTERN) if isinstance(definition, dict) else None
    return work + compile_work(upstreams) if isinstance(upstreams, str) else work


def _object(value: object) -> object:
    """Return an object for a list of pairs, the form of operator policies in `rabbitmqctl export_definitions`."""
    if not isinstance(value, list):
        return value
    fields: dict[str, object] = {}
    for pair in value:
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
            return value
        fields[pair[0]] = pair[1]
    return fields


def _apply_to(title: str, value: object, operator: bool) -> str:
    if value is None:
        return ALL
    words = apply_to_words()
    if not isinstance(value, str) or value not in words:
        raise PreconditionFailed(f"{title}: 'apply-to' must be one of {', '.join(words)}, not {json.dumps(value)}")
    if operator and value == EXCHANGES:
        raise PreconditionFailed(f"{title}: an operator policy applies to queues, not to exchanges")
    return value


def _priority(title: str, value: object) -> int:
    if value is None:
        return 0
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > PRIORITY_MAX:
        raise PreconditionFailed(f"{title}: 'priority' must be a whole number, not {json.dumps(value)}")
    return value


def _read_definition(policy: Policy, title: str) -> None:
    """Sort the keys of a definition into settings, the alternate exchange, upstreams, and keys without effect."""
    by = OPERATOR if policy.operator else POLICY
    for_queues = policy.apply_to != EXCHANGES
    given: dict[str, object] = {}
    policy.upstreams = _upstreams(policy, title)
    for key, value in policy.definition.items():
        for row in TYPES.values():
            if key in row.excluding_keys:
                policy.excluded.setdefault(row.apply_to, key)
        if key == ALTERNATE and not policy.operator:
            if not isinstance(value, str):
                raise PreconditionFailed(f"{title}: {ALTERNATE} must be the name of an exchange")
            if policy.apply_to in (EXCHANGES, ALL):
                policy.alternate = value
            else:
                policy.idle.append(key)
        elif key in UPSTREAM_KEYS:
            continue
        elif key in KEYS_WITHOUT_EFFECT or not _is_setting(title, key):
            policy.idle.append(key)
        else:
            given[key] = value
            if policy.operator and setting_named("queue", key) not in OF_OPERATORS:
                raise PreconditionFailed(
                    f"{title}: an operator policy has no {key}; it may have {', '.join(OF_OPERATORS)}"
                )
            if not for_queues:
                policy.idle.append(key)
    try:
        values = read_settings("queue", "", given)
    except BrokerError as refusal:  # mypyc allows a name one type in a function.
        raise PreconditionFailed(f"{title}: {str(refusal).removeprefix('queue: ')}") from None
    if for_queues:
        for setting, setting_value in values.items():
            policy.values[setting] = setting_value.with_source(POLICY, policy.name, by, RANK)


def _upstreams(policy: Policy, title: str) -> UpstreamChoice | None:
    """Return the upstreams that a policy names. Raises PreconditionFailed (406) as RabbitMQ's plugin does."""
    keys = [key for key in UPSTREAM_KEYS if key in policy.definition]
    if not keys:
        return None
    if policy.operator:
        raise PreconditionFailed(f"{title}: an operator policy has no {keys[0]}; set it in a policy")
    if len(keys) > 1:
        raise PreconditionFailed(f"{title}: {' and '.join(keys)} exclude each other; keep one of them")
    key, name = keys[0], policy.definition[keys[0]]
    if not isinstance(name, str) or not name:
        noun = "an expression over names of upstreams" if key == UPSTREAM_PATTERN else "a name"
        raise PreconditionFailed(f"{title}: {key} must be {noun}, not {json.dumps(name)}")
    if key != UPSTREAM_PATTERN:
        return UpstreamChoice(key, name, None)
    try:
        return UpstreamChoice(key, name, PolicyPattern(name))
    except PreconditionFailed as error:
        raise PreconditionFailed(f"{title}: {key}: {error}") from None


def _is_setting(title: str, key: str) -> bool:
    """Return whether a key is a setting of queues. Raises PreconditionFailed (406) for a misspelt key."""
    if key in OURS or key in ALIASES:
        return True
    check_foreign(title, key)
    known = [*OURS, *ALIASES, *KEYS_WITHOUT_EFFECT, *UPSTREAM_KEYS, ALTERNATE]
    if nearest(key, known, cutoff=NEARLY):
        raise PreconditionFailed(unknown_name(title, "key", key, known))
    return False
