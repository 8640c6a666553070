"""Definitions of policies, operator policies, parameters, global parameters, and our settings by pattern."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from typing_extensions import override

from penstock.core.settings import changes
from penstock.core.settings.changes import PolicyChange, change_policies_steps, setting, try_policies_steps
from penstock.core.settings.parameters import Parameter
from penstock.core.settings.policies import Policy, read_policy, reading_work
from penstock.core.settings.table import COMMAND
from penstock.errors import PreconditionFailed
from penstock.flow.work import Steps
from penstock.operations import parameters
from penstock.operations.definitions_kinds import (
    CHANGED,
    CREATED,
    UNCHANGED,
    DefinitionKind,
    Difference,
    Made,
    Planned,
    details_of,
)
from penstock.operations.definitions_parser import Entry
from penstock.operations.policies import idle_sentence
from penstock.settings.read import check_scope, read_pattern, read_settings
from penstock.settings.value import SettingValue, shown

if TYPE_CHECKING:
    from penstock.management.node import Node

KEPT: Final = "it has no effect here; kept, and exported again"


class PolicyKind(DefinitionKind):
    """Policies, or operator policies, which RabbitMQ exports as parameters; all are set at once, at the end."""

    def __init__(self, node: Node, operator: bool) -> None:
        super().__init__(node)
        self.name = "operator_policies" if operator else "policies"
        self._operator = operator
        self._changes: dict[str, PolicyChange] = {}
        """Changes of the gathered entries by subject."""

    @override
    def subject(self, entry: Entry) -> str:
        kind = "operator policy" if self._operator else "policy"
        return f"{kind} '{entry.text('name')}' of vhost '{entry.text('vhost')}'"

    @override
    def compare(self, entry: Entry, planned: Planned) -> Difference:
        self.check_once(entry)
        host = self.check_vhost(entry, planned)
        policy = self._read(host, entry)
        before = self.node.broker.table.policies.get(host, policy.name, self._operator)
        if before is None:
            found = self.difference(entry, CREATED)
        elif before.equals(policy):
            return self.difference(entry, UNCHANGED)
        else:
            found = self.difference(entry, CHANGED)
            found.details = details_of(before.fields(), policy.fields())
        if not self._gather(entry, policy):
            return self.difference(entry, UNCHANGED)
        found.note = idle_sentence(policy)
        return found

    @override
    def make(self, entry: Entry, made: Made) -> None:
        self.check_once(entry)
        host = self.node.vhost(entry.text("vhost")).name
        policy = self._read(host, entry)
        before = self.node.broker.table.policies.get(host, policy.name, self._operator)
        if before is None or not before.equals(policy):
            self._gather(entry, policy)

    def _gather(self, entry: Entry, policy: Policy) -> bool:
        """Note an entry for `finish`; return whether it is the first of its name."""
        is_first = self.subject(entry) not in self._changes
        if is_first:
            self._changes[self.subject(entry)] = setting(policy)
            self.gathered.append(entry)
        return is_first

    @override
    def rehearse(self, entries: list[Entry], planned: Planned) -> Steps[None]:
        gathered = [self._changes[self.subject(entry)] for entry in entries]
        yield from try_policies_steps(self.node.broker, planned.table, gathered)

    @override
    def finish(self, entries: list[Entry], made: Made) -> Steps[None]:
        gathered = [self._changes[self.subject(entry)] for entry in entries]
        yield from change_policies_steps(self.node.broker, gathered)
        made.undo_steps.append(lambda: self._put_back(gathered))
        for change in gathered:
            policy = change.policy
            if policy is not None:
                made.add(self.name, CREATED if change.before is None else CHANGED, None)
                idle = idle_sentence(policy)
                if idle:
                    made.notes.append(f"{policy.title()}: {idle}")
                self.node.record_setting(policy.title(), f"set by an import: {policy.definition}")

    def _put_back(self, gathered: list[PolicyChange]) -> Steps[None]:
        back = [
            PolicyChange(change.key, change.before)
            for change in gathered
            if change.key.vhost in self.node.broker.vhosts
        ]
        yield from change_policies_steps(self.node.broker, back)

    def _read(self, host: str, entry: Entry) -> Policy:
        fields = self._fields(entry)
        self.node.broker.work.done += reading_work(fields)
        return read_policy(host, entry.text("name"), fields, self._operator)

    def _fields(self, entry: Entry) -> dict[str, object]:
        return entry.table("value") if self._operator else entry.fields


class ParameterKind(DefinitionKind):
    """Parameters of components, or global parameters; kept without effect. Values are secret: they hold passwords."""

    def __init__(self, node: Node, everywhere: bool) -> None:
        super().__init__(node)
        self.name = "global_parameters" if everywhere else "parameters"
        self._everywhere = everywhere

    def _read(self, entry: Entry) -> Parameter:
        if self._everywhere:
            return Parameter("", "", entry.text("name"), entry.fields.get("value"))
        host, component = entry.text("vhost"), entry.text("component")
        if not component:
            raise PreconditionFailed("the component of a parameter must not be empty")
        return Parameter(component, host, entry.text("name"), entry.fields.get("value"))

    @override
    def subject(self, entry: Entry) -> str:
        name = entry.text("name")
        if self._everywhere:
            return f"global parameter '{name}'"
        return f"parameter '{name}' of component '{entry.text('component')}' in vhost '{entry.text('vhost')}'"

    @override
    def compare(self, entry: Entry, planned: Planned) -> Difference:
        self.check_once(entry)
        if not self._everywhere:
            self.check_vhost(entry, planned)
        parameter = self._read(entry)
        table = self.node.broker.table.parameters
        table.check(parameter)
        before = table.get(*parameter.key())
        if before is not None and before.value == parameter.value:
            return self.difference(entry, UNCHANGED)
        found = self.difference(entry, CREATED if before is None else CHANGED)
        if before is not None:
            found.details = [("value", "", "")]
        found.note = KEPT
        return found

    @override
    def make(self, entry: Entry, made: Made) -> None:
        self.check_once(entry)
        parameter = self._read(entry)
        before = self.node.broker.table.parameters.get(*parameter.key())
        if before is not None and before.value == parameter.value:
            return
        parameters.put_parameter(self.node, parameter)
        change = CREATED if before is None else CHANGED
        made.add(self.name, change, lambda: self._put_back(parameter, before))
        made.notes.append(f"{parameter.title()}: {KEPT}")

    def _put_back(self, parameter: Parameter, before: Parameter | None) -> str:
        broker = self.node.broker
        there = broker.table.parameters.get(*parameter.key())
        if there is parameter and before is None:
            parameters.drop_parameter(self.node, parameter.key())
        elif there is parameter and before is not None:
            parameters.put_parameter(self.node, before)
        return ""


class SettingsKind(DefinitionKind):
    """Settings by pattern that were set by command; only Penstock exports them."""

    name = "settings"

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self._words: dict[str, changes.EntryBefore] = {}
        """Scope, pattern and settings of the gathered entries by subject."""

    @override
    def subject(self, entry: Entry) -> str:
        scope, pattern = entry.text("scope"), entry.text("pattern")
        return f"settings of {scope} '{pattern}'" if pattern else f"settings of {scope}"

    def _read(self, entry: Entry) -> tuple[str, str, dict[str, SettingValue]]:
        scope = entry.text("scope")
        check_scope(scope)
        pattern = read_pattern(scope, entry.text("pattern"))
        words = read_settings(scope, pattern, entry.table("settings"))
        overrides = entry.table("override")
        return scope, pattern, {**words, **(read_settings(scope, pattern, overrides, True) if overrides else {})}

    @override
    def compare(self, entry: Entry, planned: Planned) -> Difference:
        self.check_once(entry)
        scope, pattern, words = self._read(entry)
        said = self.node.broker.table.entries_of(scope, pattern, COMMAND)
        before, after = plain(said), plain({**said, **words})
        if before == after:
            return self.difference(entry, UNCHANGED)
        if not self._gather(entry, (scope, pattern, words)):
            return self.difference(entry, UNCHANGED)
        found = self.difference(entry, CHANGED if before else CREATED)
        found.details = details_of(before, after) if before else []
        return found

    @override
    def make(self, entry: Entry, made: Made) -> None:
        self.check_once(entry)
        scope, pattern, words = self._read(entry)
        before = self.node.broker.table.entries_of(scope, pattern, COMMAND)
        if plain(before) != plain({**before, **words}):
            self._gather(entry, (scope, pattern, words))

    def _gather(self, entry: Entry, read: changes.EntryBefore) -> bool:
        """Note an entry for `finish`; return whether it is the first of its pattern."""
        is_first = self.subject(entry) not in self._words
        if is_first:
            self._words[self.subject(entry)] = read
            self.gathered.append(entry)
        return is_first

    def _before_and_after(self, entries: list[Entry]) -> tuple[list[changes.EntryBefore], list[changes.EntryBefore]]:
        before: list[changes.EntryBefore] = []
        after: list[changes.EntryBefore] = []
        for entry in entries:
            scope, pattern, words = self._words[self.subject(entry)]
            old = dict(self.node.broker.table.entries_of(scope, pattern, COMMAND))
            before.append((scope, pattern, old))
            after.append((scope, pattern, {**old, **words}))
        return before, after

    @override
    def rehearse(self, entries: list[Entry], planned: Planned) -> Steps[None]:
        _, after = self._before_and_after(entries)
        yield from changes.try_all_steps(self.node.broker, planned.table, after)

    @override
    def finish(self, entries: list[Entry], made: Made) -> Steps[None]:
        before, after = self._before_and_after(entries)
        yield from changes.set_all_steps(self.node.broker, after)
        made.undo_steps.append(lambda: self._put_back(before))
        for (scope, pattern, words), (_, _, old) in zip(after, before, strict=True):
            made.add(self.name, CHANGED if old else CREATED, None)
            listed = ", ".join(f"{name}={shown(value)}" for name, value in plain(words).items())
            self.node.record_setting(f"{scope} '{pattern}'" if pattern else scope, f"set by an import: {listed}")

    def _put_back(self, before: list[changes.EntryBefore]) -> Steps[None]:
        yield from changes.set_all_steps(self.node.broker, before)


def plain(words: dict[str, SettingValue]) -> dict[str, object]:
    """Return settings by the names and values by which they were given."""
    return {f"{word.alias} (override)" if word.override else word.alias: word.raw for word in words.values()}
