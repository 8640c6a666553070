"""Settings operations: set, unset, list and show settings, preview a change, and show the configuration."""

from __future__ import annotations

from typing import Final

from penstock.access.permission import ADMINISTRATOR, MANAGEMENT, MONITORING, POLICYMAKER
from penstock.access.rules import Rules
from penstock.connections.authorization import check_tag
from penstock.connections.connection_names import connection_named, label
from penstock.connections.control_request import ControlRequest
from penstock.core.broker import Broker
from penstock.core.publish.connection_gates import NO_SETTINGS
from penstock.core.queue.pager import check
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_settings import Settings
from penstock.core.settings import changes
from penstock.core.settings.changes import EntryBefore, matching_steps
from penstock.core.settings.overflow_changes import OverflowChanges, describe_overflow
from penstock.core.settings.table import COMMAND, SettingsEntry
from penstock.core.vhost import PREDECLARED
from penstock.describe.gate import thresholds_row
from penstock.describe.table import Row
from penstock.errors import PreconditionFailed
from penstock.flow.level import Thresholds, amount
from penstock.flow.work import Steps
from penstock.management.effective_settings import (
    NAMES_TOLD,
    hidden,
    hidden_sentence,
    hidden_steps,
    matches_sentences,
    queue_settings,
    scope_settings,
    source_of,
)
from penstock.management.node import Node
from penstock.management.operation import (
    ALL,
    BY_EVERYWHERE,
    JOINED,
    NODE,
    VHOST,
    Answer,
    Choice,
    Operation,
    Route,
    looking,
    only_one,
)
from penstock.operations import joins
from penstock.operations.definitions_kinds import Definitions, Together
from penstock.operations.definitions_parser import Entry, Section
from penstock.settings.kind import Number
from penstock.settings.placed import SEPARATORS, place, placed
from penstock.settings.read import check_scope, read_pattern, read_settings, setting_named
from penstock.settings.table import DEFAULT, FOREIGN_BYTES, SCOPES, WITHOUT_BURST, SettingValue, shown
from penstock.texts import worded

USERS: Final[tuple[str, ...]] = ("user", "connection", "producer")
"""Scopes whose patterns match names of users."""
RESERVED: Final = "amq."
"""Beginning of names of exchanges that nobody may declare."""
EACH: Final[tuple[str, ...]] = ("connection", "producer")
"""Scopes of what each connection, or each producer, of a user may do."""
SHOWN: Final = tuple(scope for scope in SCOPES if scope != "producer")
"""Scopes with objects that can be named."""
ENTRY_WORK: Final = 3
"""Units of work per listed pattern, besides one for each of its settings."""
RUN_TIME: Final = "run-time change"
"""Source of a setting by command, an import of definitions, or the HTTP API."""


def set_settings(node: Node, request: ControlRequest) -> Steps[Row]:
    """Answer settings.set {scope, pattern, settings, override, everywhere}: all or none, in effect with the answer.

    Patterns of queues and exchanges apply in the virtual host of the request, or `everywhere`. `warnings` are the
    `sentences` of the answer that name a stronger source. Raises PreconditionFailed (406) for invalid values,
    ResourceError (506) at the bound of patterns.
    """
    scope, pattern = _target(node, request)
    vhost, name = placed(scope, pattern)
    values = given_settings(request, scope, name)
    plan = yield from changes.set_settings_steps(node.broker, scope, pattern, values)
    matched = yield from matching_steps(node.broker, scope, pattern)
    warnings: list[str] = []
    if scope == "queue":
        warnings = yield from hidden_steps(node.broker, [queue for queue, _ in plan.queues], values)
    whereto = _whereto(scope, pattern, matched)
    sentences = [*whereto, *plan.overflow.sentences(), *warnings]
    for unit in ("messages", "bytes"):
        if f"burst-{unit}" in values and not _has_rate(node.broker, scope, unit):
            sentences.append(f"burst-{unit} has no effect without rate-{unit}: set that as well")
    rate = node.broker.table.resolve(scope, name, vhost).get("rate-messages") if "burst-messages" in values else None
    if rate is not None and rate.alias in WITHOUT_BURST:
        sentences.append(f"burst-messages has no effect beside {rate.alias}: set rate-messages instead")
    if scope == "address" and "/" in name and not {"rate-messages", "rate-bytes"}.isdisjoint(values):
        sentences.append("a rate is one of a whole exchange: it has no effect on its routing keys")
    for setting in node.broker.table.of_file(scope, pattern):
        if setting in values:
            sentences.append(
                f"{setting} takes precedence over the settings file for {_asked(scope, pattern)}, until it is unset"
            )
    how = "set as an override" if request.flag("override") else "set"
    node.record_setting(_subject(scope, pattern), f"{how} by {request.asker()}: {_listed(values)}", request.access.user)
    return {
        **_answer(node.broker, scope, pattern, matched),
        "queues": len(plan.queues),
        "sentences": sentences,
        "warnings": warnings,
        **_for_joining(request, _asked(scope, pattern), matched, sentences[len(whereto) :]),
    }


def given_settings(request: ControlRequest, scope: str, pattern: str) -> dict[str, SettingValue]:
    """Return the settings of a request. Raises PreconditionFailed (406); AccessRefused (403) for an override."""
    given, override = request.fields.get("settings"), request.flag("override")
    if not isinstance(given, dict) or not given:
        raise PreconditionFailed(
            f"'settings' must be an object of at least one setting and its value, not {worded(given)}"
        )
    if override:  # An override is stronger than operator policies, which only administrators change either.
        check_tag(request.access, ADMINISTRATOR, f"an override of the settings of {_quoted(scope, pattern)}")
    return read_settings(scope, pattern, given, override)


def unset_settings(node: Node, request: ControlRequest) -> Steps[Row]:
    """Answer settings.unset {scope, pattern, names, everywhere}: remove settings set by command (null names: all).

    Raises NotFound (404) if nothing was set by command, PreconditionFailed (406) if the rest is invalid.
    """
    scope, pattern = _target(node, request)
    names: list[str] = []
    if request.fields.get("names") is not None:
        names = [setting_named(scope, name) for name in request.names("names")]
    plan = yield from changes.remove_steps(node.broker, scope, pattern, names)
    matched = yield from matching_steps(node.broker, scope, pattern)
    whereto = _whereto(scope, pattern, matched)
    sentences = [*whereto, *plan.overflow.sentences()]
    for name, value in node.broker.table.of_file(scope, pattern).items():
        if not names or name in names:
            sentences.append(f"{name}: the settings file's {shown(value.raw)} is in effect again")
    node.record_setting(
        _subject(scope, pattern), f"unset by {request.asker()}: {', '.join(names) or 'all'}", request.access.user
    )
    return {
        **_answer(node.broker, scope, pattern, matched),
        "queues": len(plan.queues),
        "sentences": sentences,
        **_for_joining(request, _asked(scope, pattern), matched, sentences[len(whereto) :]),
    }


def _for_joining(request: ControlRequest, subject: str, matched: list[str], sentences: list[str]) -> Row:
    """Return what the answer of one of several brokers has besides: matched names, and the other sentences."""
    if JOINED not in request.fields:
        return {}
    return {JOINED: {"subject": subject, "names": matched[:NAMES_TOLD], "sentences": sentences}}


def _before(node: Node, request: ControlRequest) -> Row:
    """Return the settings set by command for the pattern of a request."""
    values = node.broker.table.entries_of(*_target(node, request), COMMAND)
    return {name: value.raw for name, value in values.items()}


def list_settings(node: Node, request: ControlRequest) -> Steps[Row]:
    """Answer settings.list {everywhere}: settings, pattern by pattern; bounded by the number of patterns.

    Without `everywhere`, patterns of other virtual hosts than the request's are omitted. Without the tag monitoring,
    patterns of other users and of virtual hosts that the requester may not enter are omitted.
    """
    rows: list[Row] = []
    work, rules, everywhere = node.broker.work, request.access.rules, request.flag("everywhere")
    for entry in node.broker.table.entries():
        if work.spend(ENTRY_WORK + len(entry.command) + len(entry.file)):
            yield
        if entry.vhost is not None and entry.vhost != request.vhost.name:
            if not everywhere or not (rules.has_tag(MONITORING) or rules.enters(entry.vhost)):
                continue
        if not _may_see(rules, request.access.user, entry.scope, entry.name):
            continue
        values: Row = {"command": _by_name(entry.commands(False)), "file": _by_name(entry.file)}
        rows.append({"scope": entry.scope, "pattern": entry.name, **_vhost_field(entry.vhost), **values})
        overrides = entry.commands(True)
        if overrides:
            rows[-1]["override"] = _by_name(overrides)
    return {"settings": rows}


def show(node: Node, request: ControlRequest) -> Row:
    """Answer show {queue} or {another scope}: the effective values with their sources.

    A connection is an open connection. {user, each} shows the values for each connection or producer of a user.
    """
    scope = only_one(SHOWN, [scope for scope in SHOWN if scope in request.fields])
    name = request.text(scope)
    if scope == "connection":
        return _show_connection(node, request, name)
    if scope == "user" and request.fields.get("each") is not None:
        scope = request.text("each")
        if scope not in EACH:
            raise PreconditionFailed(f"'each' must be connection or producer, not {worded(scope)}")
    _check_shown(request, scope, name)
    if scope == "queue":
        queue = request.vhost.queue(name, request.connection)
        rows = _with_units(scope, queue_settings(node.broker, queue))
        return {"scope": scope, "name": name, "overflow": describe_overflow(queue.settings), "settings": rows}
    vhost: str | None = None
    if scope == "address":
        vhost = request.vhost.name
        request.vhost.exchange(name if name in request.vhost.exchanges else name.partition("/")[0])
    elif scope == "vhost":
        node.vhost(name)
    elif scope == "broker":
        name = ""
    else:
        node.check_user(name)
    rows = scope_settings(node.broker, scope, name, None, vhost)
    return {"scope": scope, "name": name, "settings": _with_units(scope, rows)}


def _show_connection(node: Node, request: ControlRequest, name: str) -> Row:
    seen = request.access.rules.has_tag(MONITORING)
    connection = connection_named(node.connections, name, "" if seen else request.access.user)
    given = NO_SETTINGS if connection.origin is None else connection.origin.given
    rows = scope_settings(node.broker, "connection", connection.user, given)
    for row in rows:
        if row["setting"] in given:
            row["from"] = f"set by command for this connection, until it closes: {row['name']}={row['given']}"
    return {"scope": "connection", "name": label(connection), "settings": _with_units("connection", rows)}


def _with_units(scope: str, rows: list[Row]) -> list[Row]:
    """Add the unit of each value: ms, s or bytes, empty for other values."""
    for row in rows:
        name = str(row["setting"])
        kind = SCOPES[scope].get(name)
        row["unit"] = kind.unit if isinstance(kind, Number) else ""
    return rows


def _target(node: Node, request: ControlRequest) -> tuple[str, str]:
    """Return the scope of a request and the stored form of its pattern. Raises PreconditionFailed (406)."""
    scope = request.text("scope")
    check_scope(scope)
    everywhere = request.flag("everywhere")
    if everywhere and scope not in SEPARATORS:
        raise PreconditionFailed(f"settings of scope {scope} are of the whole broker: leave out 'everywhere'")
    _check_scope(node, request, scope)
    pattern = "" if request.fields.get("pattern") is None else request.text("pattern")
    _check_possible(scope, pattern)
    if scope in SEPARATORS and pattern:
        pattern = place(scope, None if everywhere else request.vhost.name, pattern)
    return scope, read_pattern(scope, pattern)


def _check_possible(scope: str, pattern: str) -> None:
    """Raise PreconditionFailed (406) for the name of an exchange that cannot be declared, and would never match."""
    exchange = pattern.partition("/")[0]
    is_one = not {"*", "#"}.intersection(exchange.split("."))
    names = [name for name, _ in PREDECLARED if name.startswith(RESERVED)]
    if scope == "address" and is_one and exchange.startswith(RESERVED) and exchange not in names:
        raise PreconditionFailed(
            f"address '{exchange}' can never match: of exchanges whose names begin with {RESERVED} there are only "
            f"{', '.join(names)}"
        )


def _check_scope(node: Node, request: ControlRequest, scope: str) -> None:
    """Check the right to change the settings of a scope.

    A policymaker must be able to enter each virtual host in which the pattern applies. All other changes require an
    administrator.
    """
    rules = request.access.rules
    if scope in SEPARATORS:
        vhosts = list(node.broker.vhosts) if request.flag("everywhere") else [request.vhost.name]
        if all(rules.enters(name) for name in vhosts):
            return
    check_tag(request.access, ADMINISTRATOR, f"a change of the settings of scope {scope}")


def _check_shown(request: ControlRequest, scope: str, name: str) -> None:
    """Check the right to see the settings of an object that is in no virtual host of the requester."""
    if scope == "broker" or not _may_see(request.access.rules, request.access.user, scope, name):
        check_tag(request.access, MONITORING, f"a look at the settings of {scope} '{name}'")


def _may_see(rules: Rules, user: str, scope: str, name: str) -> bool:
    """Return whether a user may see the settings of a name: a virtual host's, a user's, or those of all."""
    if rules.has_tag(MONITORING) or scope in ("queue", "address", "broker"):
        return True
    return rules.enters(name) if scope == "vhost" else name == user


def _quoted(scope: str, name: str) -> str:
    return f"{scope} '{name}'" if name else scope


def _subject(scope: str, pattern: str) -> str:
    """Return the subject of a log line: a pattern in its stored form with its virtual host."""
    vhost, name = placed(scope, pattern)
    return _quoted(scope, name) + ("" if vhost is None else f" of vhost '{vhost}'")


def _asked(scope: str, pattern: str) -> str:
    """Return the subject of an answer to a requester in the virtual host of the pattern."""
    vhost, name = placed(scope, pattern)
    everywhere = scope in SEPARATORS and vhost is None
    return _quoted(scope, name) + (" of all virtual hosts" if everywhere else "")


def _vhost_field(vhost: str | None) -> Row:
    return {} if vhost is None else {"vhost": vhost}


def _answer(broker: Broker, scope: str, pattern: str, matched: list[str]) -> Row:
    values = broker.table.entries_of(scope, pattern, COMMAND)
    vhost, name = placed(scope, pattern)
    row = {"scope": scope, "pattern": name, **_vhost_field(vhost)}
    return {**row, "settings": _by_name(values), "matches": len(matched)}


def _whereto(scope: str, pattern: str, matched: list[str]) -> list[str]:
    told = matches_sentences(_asked(scope, pattern), scope, matched[:NAMES_TOLD], len(matched))
    return told if pattern or not matched else []


def _has_rate(broker: Broker, scope: str, unit: str) -> bool:
    its = [entry for entry in broker.table.entries() if entry.scope == scope]
    return any(f"rate-{unit}" in values for entry in its for values in (entry.command, entry.file))


def _listed(values: dict[str, SettingValue]) -> str:
    return ", ".join(f"{name}={value}" for name, value in _by_name(values).items())


def _by_name(values: dict[str, SettingValue]) -> dict[str, str]:
    """Return settings as texts, by the broker's own names; limits with another broker's meaning by their own names."""
    return {value.alias if value.alias in FOREIGN_BYTES else name: shown(value.raw) for name, value in values.items()}


def preview_steps(node: Node, request: ControlRequest) -> Steps[Row]:
    """Answer settings.preview {queue, settings}: its limits before and after `settings.set`, with sentences.

    Nothing is changed. Raises NotFound (404), and PreconditionFailed (406) where the change would be refused.
    """
    name = request.text("queue")
    queue = request.vhost.queue(name, request.connection)
    pattern = read_pattern("queue", place("queue", queue.vhost, name))
    values = given_settings(request, "queue", name)
    matched = yield from matching_steps(node.broker, "queue", pattern)
    after, without_effect = resolved(node.broker, queue, pattern, values)
    sentences = consequences(queue, after.thresholds)
    now = queue.settings
    if (after.overflow, after.at_length) != (now.overflow, now.at_length) or after.length != now.length:
        changed = OverflowChanges()
        changed.add(queue.name, now, after)
        sentences += changed.sentences()
    others = len(matched) - 1
    if others > 0:
        noun = "queue" if others == 1 else "queues"
        sentences.append(f"the pattern '{name}' matches {others:,} more {noun}, which would change as well")
    sentences += without_effect
    before = thresholds_row(queue.thresholds)
    after_row = thresholds_row(after.thresholds)
    return {"before": before, "after": after_row, "sentences": sentences, "without_effect": without_effect}


def resolved(broker: Broker, queue: Queue, pattern: str, values: dict[str, SettingValue]) -> tuple[Settings, list[str]]:
    """Return the settings that a queue would have with further values set by command, and warnings.

    The table is not changed.
    """
    table = broker.table
    before = table.entries_of("queue", pattern, COMMAND)
    table.set("queue", pattern, COMMAND, {**before, **values})
    try:
        resolved = table.queue(queue.vhost, queue.name, queue.settings.given, queue.features.type.apply_to)
        check(queue.name, resolved, queue.features, broker.journal)
        without_effect = [
            hidden_sentence(values[setting], source_of(other), [queue.name])
            for setting, other in hidden(broker, queue, resolved, values)
        ]
    finally:
        table.set("queue", pattern, COMMAND, before)
    return resolved, without_effect


def consequences(queue: Queue, after: Thresholds) -> list[str]:
    """Describe the effects of new thresholds on the gate of a queue, and on the producers that wait there."""
    messages, size = queue.depth_messages(), queue.depth_bytes()
    now, gate, counted = queue.thresholds, queue.gate, after.capacity.counted(messages, size)
    if thresholds_row(now) == thresholds_row(after):
        return ["its limits stay as they are"]
    depth = f"{amount(messages)} messages, {amount(counted)} bytes"
    blocked = len(gate.blocked)
    sentences: list[str] = []
    if gate.open and after.overfull(messages, size):
        sentences.append(f"its gate closes at once: the depth is {depth}, above stop {after.stop.describe()}")
        sentences.append(f"it opens again when the depth is at most resume {after.resume.describe()}")
    elif gate.open:
        sentences.append(f"its gate stays open: the depth is {depth}, and stop is {after.stop.describe()}")
    elif after.underfull(messages, size):
        noun = "producer continues" if blocked == 1 else "producers continue"
        sentences.append(f"its gate opens at once: the depth is {depth}, and {blocked:,} {noun}")
    else:
        sentences.append(
            f"its gate stays closed until the depth, now {depth}, is at most resume {after.resume.describe()}"
        )
    if not after.capacity.covers(messages, size):
        sentences.append(
            f"the depth is above the new capacity of {after.capacity.describe()}: publishes are held until it has room"
        )
    return sentences


def config_steps(node: Node) -> Steps[Row]:
    """Return the configuration: `start` and `broker` have all settings, `patterns` the settings that are set."""
    file = node.start_settings.file
    patterns: list[Row] = []
    work = node.broker.work
    of_broker: SettingsEntry | None = None
    for entry in node.broker.table.entries():
        if work.spend(ENTRY_WORK * (1 + len(entry.command) + len(entry.file))):
            yield
        if entry.scope == "broker":
            of_broker = entry
            continue
        for name, value in entry.file.items():
            if name not in entry.command:
                patterns.append(_config_row(entry, name, value, _position_in(file, value)))
        for name, value in entry.command.items():
            patterns.append(_config_row(entry, name, value, RUN_TIME))
    row: Row = {"file": file or None, "start": node.start_settings.rows}
    return {**row, "broker": _of_broker(node, of_broker), "patterns": patterns}


def _of_broker(node: Node, entry: SettingsEntry | None) -> list[Row]:
    rows: list[Row] = []
    for row in scope_settings(node.broker, "broker", ""):
        name, source = str(row["setting"]), str(row["from"])
        if entry is not None and name in entry.command:
            source = RUN_TIME
        elif entry is not None and name in entry.file:
            source = _position_in(node.start_settings.file, entry.file[name])
        elif row["origin"] == DEFAULT:
            source = DEFAULT
        rows.append({"setting": name, "value": row["value"], "from": source})
    return rows


def _config_row(entry: SettingsEntry, name: str, value: SettingValue, source: str) -> Row:
    return {"scope": entry.scope, "pattern": entry.pattern, "setting": name, "value": value.raw, "from": source}


def _position_in(file: str, value: SettingValue) -> str:
    """Return the position of a setting in the settings file: FILE:LINE."""
    return f"{file}:{value.place.removeprefix(' line ')}" if value.place else file


def _read(node: Node, entry: Entry) -> EntryBefore:
    """Return scope, pattern and settings: the settings of an entry, and other settings of the pattern."""
    scope = entry.text("scope")
    check_scope(scope)
    pattern, overrides = read_pattern(scope, entry.text("pattern")), entry.table("override")
    values = read_settings(scope, pattern, entry.table("settings"))
    more = read_settings(scope, pattern, overrides, True) if overrides else {}
    return scope, pattern, {**node.broker.table.entries_of(scope, pattern, COMMAND), **values, **more}


def _there(node: Node, entry: Entry) -> EntryBefore | None:
    scope, pattern, _ = _read(node, entry)
    values = dict(node.broker.table.entries_of(scope, pattern, COMMAND))
    return (scope, pattern, values) if values else None


def _put_back(node: Node, values: list[tuple[EntryBefore, EntryBefore | None]]) -> Steps[object]:
    return changes.set_all_steps(node.broker, [before or (value[0], value[1], {}) for value, before in values])


def _record(value: EntryBefore) -> tuple[str, str]:
    listed = ", ".join(f"{name}={shown(each)}" for name, each in plain(value[2]).items())
    return _subject(value[0], value[1]), f"set by an import: {listed}"


DEFINITIONS: Final[Definitions] = Definitions(
    # Set by command; only Penstock exports these.
    Section("settings", "scope settings", texts="scope pattern", objects="settings override", named_by="pattern"),
    subject=lambda entry: f"settings of {_subject(entry.text('scope'), entry.text('pattern'))}",
    read=_read,
    row=lambda value: plain(value[2]),
    find=_there,
    together=Together(
        put=lambda node, values: changes.set_all_steps(node.broker, values),
        rehearse=lambda node, table, values: changes.try_all_steps(node.broker, table, values),
        put_back=_put_back,
        record=_record,
    ),
    check=lambda node, entry, value, planned: None,
    same=lambda node, entry, before, value: plain({} if before is None else before[2]) == plain(value[2]),
)


def plain(values: dict[str, SettingValue]) -> dict[str, object]:
    """Return settings by the names and values that were given."""
    return {f"{value.alias} (override)" if value.override else value.alias: value.raw for value in values.values()}


def _listed_or_shown(node: Node, request: ControlRequest) -> Answer | Steps[Answer]:
    scope = request.fields.get("scope")
    if scope is None:
        return list_settings(node, request)
    name = request.text("name", "")
    return show(node, request.part({"user": name, "each": scope} if scope == "producer" else {str(scope): name}))


OF_VHOST: Final[tuple[str, ...]] = ("queue", "address")
"""Scopes of objects of a virtual host."""
BY_SHOWN: Final[Choice] = Choice(
    (VHOST, ALL), lambda fields: VHOST if any(each in fields for each in OF_VHOST) else ALL
)
BY_LISTED: Final[Choice] = Choice(
    (VHOST, ALL),
    lambda fields: (
        VHOST if fields.get("scope", OF_VHOST[0]) in OF_VHOST and fields.get("everywhere") is not True else ALL
    ),
)
BY_PATTERN: Final[Choice] = BY_LISTED
"""Patterns of queues and addresses of one virtual host; all others count for all of it."""
OPERATIONS: Final[tuple[Operation, ...]] = (
    looking("show", show, (*SHOWN, "each"), tag=MANAGEMENT, asks=BY_SHOWN, join=joins.FIRST),
    looking("settings.list", list_settings, ("everywhere",), tag=MANAGEMENT, asks=BY_EVERYWHERE, join=joins.SETTINGS),
    looking("", _listed_or_shown, ("scope", "name", "everywhere"), tag=MANAGEMENT, asks=BY_LISTED,
            join=joins.SETTINGS_OR_ONE, routes=(
        Route("GET /penstock/settings", "List the settings of all patterns; with `scope` and `name`, those in effect "
              "there, with their sources. Patterns of other virtual hosts are listed with `everywhere=true`.",
              query=("scope", "name", "everywhere"), queried=True, flags=("everywhere",)),
    )),
    Operation("settings.set", set_settings, ("scope", "pattern", "settings", "override", "everywhere"), tag=POLICYMAKER,
              before=_before, asks=BY_PATTERN, join=joins.CHANGED_SETTINGS, routes=(
        Route("PUT /penstock/settings", "Set settings of a pattern: `scope`, `pattern`, `settings`, `override`, "
              "`everywhere`, as `penstock queues set`.", queried=True),
    )),
    Operation("settings.unset", unset_settings, ("scope", "pattern", "names", "everywhere"), tag=POLICYMAKER,
              before=_before, asks=BY_PATTERN, join=joins.CHANGED_SETTINGS, routes=(
        Route("DELETE /penstock/settings", "Remove settings of a pattern: `scope`, `pattern`, `names`, `everywhere`, "
              "as `penstock queues unset`.", queried=True, body=True),
    )),
    looking("", preview_steps, ("queue", "settings", "override"), tag=POLICYMAKER, asks=VHOST, routes=(
        Route("POST /penstock/settings/preview", "Tell what settings would do to a queue: `queue`, `settings`, "
              "`override`. Nothing is changed.", queried=True),
    )),
    looking("config.show", lambda node, request: config_steps(node), asks=NODE),
)  # fmt: skip
