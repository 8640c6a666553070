"""Joins: one answer made of the answers of several brokers, each of which has some of the virtual hosts.

A `Join` has two pure functions: `spread` makes the fields of a request to each broker (page 3 of 100 becomes the first
300), and `join` makes the answer. Answers are in the form of JSON, in the order of the brokers. A broker that does not
have the virtual host of a request answers as one in which that virtual host is empty.

Equal objects are in the order of the brokers, as one broker has them in the order of its virtual hosts. A broker that
does not answer is left out, so its objects are missing; whoever asks the brokers names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from penstock.describe.conditions import Key, key_of
from penstock.describe.list_kinds import ListKind
from penstock.describe.lists import COLUMNS_MOST, PAGE_DEFAULT, PAGE_MOST
from penstock.describe.queue_groups import GROUP_COLUMN
from penstock.describe.queue_state import NORMAL, STOP, WARN
from penstock.describe.session import CONNECTIONS_SHOWN
from penstock.describe.table import SPREAD, Row, field_at
from penstock.errors import AccessRefused, BrokerError, NotFound, PreconditionFailed
from penstock.flow.pool import SHOWN_HOLDERS
from penstock.management.alarms import order_of
from penstock.management.blocked_overview import GATES_TOLD, composed
from penstock.management.control_api import SLOWED_SHOWN, STATUS_MOST
from penstock.management.effective_settings import matches_sentences
from penstock.management.operation import FAILED, JOINED, Answer, Answered, Asked, Join, verdict
from penstock.management.unlisted_memory import HOLDERS_SHOWN, SAID_FROM, held_sentence
from penstock.operations.near_names import NEAR_MOST
from penstock.settings.placed import SEPARATORS, place
from penstock.settings.table import SCOPES
from penstock.texts import worded

# Requests


def _same(asked: Asked) -> list[Row | None]:
    return [dict(asked.fields) for _ in range(asked.brokers)]


def _marked(asked: Asked) -> list[Row | None]:
    return [{**asked.fields, JOINED: True} for _ in range(asked.brokers)]


def _amount(fields: Row, name: str, default: int) -> int:
    """Return a whole number of a request; the default also for a value that each broker refuses."""
    value = fields.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default


def _texts(fields: Row, name: str) -> list[str]:
    value = fields.get(name)
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


# Answers


def _rows_of(answers: list[Answered]) -> list[Row]:
    """Return the answers that are objects. Raises the first error."""
    rows: list[Row] = []
    for each in answers:
        if isinstance(each, BrokerError):
            raise each
        if isinstance(each, dict):
            rows.append(each)
    return rows


def _list_at(row: Row, name: str) -> list[object]:
    value = row.get(name)
    return value if isinstance(value, list) else []


def _number_at(row: Row, path: str) -> float:
    value = field_at(row, path)
    return value if isinstance(value, (int, float)) else 0


def _concatenated(rows: list[Row], name: str) -> list[object]:
    return [item for row in rows for item in _list_at(row, name)]


def _rows_at(rows: list[Row], name: str) -> list[Row]:
    return [item for item in _concatenated(rows, name) if isinstance(item, dict)]


def _total(rows: list[Row], name: str) -> int:
    return sum(_amount(row, name, 0) for row in rows)


def _most(rows: list[Row], name: str) -> int:
    return max([_amount(row, name, 0) for row in rows], default=0)


def _distinct(rows: Iterable[object]) -> list[object]:
    """Return each value once: brokers have copies of what is global."""
    found: dict[str, object] = {}
    for row in rows:
        found.setdefault(repr(row), row)
    return list(found.values())


# The first broker that has an answer


def _first(asked: Asked, answers: list[Answered]) -> Answer:
    """Return the first answer. Raises the error that says more than that there is no such object, or else that."""
    errors: list[BrokerError] = []
    for each in answers:
        if isinstance(each, BrokerError):
            errors.append(each)
        elif each is not None:
            return each
    if errors:
        raise min(errors, key=_rank)
    return None


def _rank(error: BrokerError) -> int:
    """Return how little an error says of an object: a broker without it refuses it, or says that there is none."""
    if isinstance(error, NotFound) and str(error).startswith("no "):
        return 2
    return 1 if isinstance(error, AccessRefused) else 0


FIRST: Final[Join] = Join(_same, _first)
"""For one object that any broker may have, such as a connection, and for changes of what all have."""


# Sums


def _sum(values: list[object]) -> object:
    """Return the sum of numbers, of the numbers in objects, and of lists entry by entry from the newest, the first.

    Of all else it is the first value that is there.
    """
    there = [value for value in values if value is not None]
    first = there[0] if there else None
    if isinstance(first, bool) or first is None:
        return first
    if isinstance(first, (int, float)):
        return sum([value for value in there if isinstance(value, (int, float))])
    if isinstance(first, dict):
        return _sum_of_rows([value for value in there if isinstance(value, dict)])
    if isinstance(first, list):
        lists = [value for value in there if isinstance(value, list)]
        return [_sum([each[at] for each in lists if at < len(each)]) for at in range(max(map(len, lists)))]
    return first


def _sum_of_rows(rows: list[Row]) -> Row:
    names = dict.fromkeys([name for row in rows for name in row])
    return {name: _time_or_sum(name, [row[name] for row in rows if name in row]) for name in names}


def _time_or_sum(name: str, values: list[object]) -> object:
    return values[0] if name == "timestamp" else _sum(values)


SUMMED: Final[tuple[str, ...]] = ("message_stats", "queue_totals", "object_totals", "churn_rates")
"""Fields of the overview that are sums over virtual hosts."""


def _overview(asked: Asked, answers: list[Answered]) -> Answer:
    rows = _rows_of(answers)
    summed = _sum_of_rows([{name: row[name] for name in SUMMED if name in row} for row in rows])
    return {**rows[0], **summed} if rows else None


OVERVIEW: Final[Join] = Join(_same, _overview)


def _history(asked: Asked, answers: list[Answered]) -> Answer:
    rows = _rows_of(answers)
    if not rows:
        return None
    tiers: list[Row] = []
    for its in zip(*[_rows_at([row], "tiers") for row in rows], strict=False):
        tier = dict(its[0])
        for name, value in its[0].items():
            if isinstance(value, list):
                tier[name] = _newest_first_sum([_list_at(each, name) for each in its])
        tiers.append(tier)
    return {**rows[0], "tiers": tiers}


def _newest_first_sum(lists: list[list[object]]) -> list[object]:
    """Return the sums of entries whose newest is the last."""
    summed = _sum([each[::-1] for each in lists])
    assert isinstance(summed, list)
    return summed[::-1]


HISTORY: Final[Join] = Join(_same, _history)


def _hours(asked: Asked, answers: list[Answered]) -> Answer:
    rows = _rows_of(answers)
    return {**rows[0], "hours": _concatenated(rows, "hours")} if rows else None


HOURS: Final[Join] = Join(_same, _hours)


FOUND_MOST: Final = 8
"""Most names of each noun that a search answers."""


def _found(asked: Asked, answers: list[Answered]) -> Answer:
    """Return the names that begin with the text before others, noun by noun; users are in each broker."""
    rows = _rows_of(answers)
    if not rows:
        return None
    text, every = str(asked.fields.get("q")).lower(), _distinct(_rows_at(rows, "found"))
    counts = [row["searched"] for row in rows if isinstance(row["searched"], dict)]
    searched = {noun: (max if noun == "user" else sum)([each[noun] for each in counts if noun in each])
                for noun in counts[0]}  # fmt: skip
    found: list[object] = []
    near: list[object] = []
    around = _distinct(_rows_at(rows, "near")) if "near" in rows[0] else []
    for noun in searched:
        its = [row for row in every if isinstance(row, dict) and row["noun"] == noun]
        found += sorted(its, key=lambda row: not str(row["matched"]).lower().startswith(text))[:FOUND_MOST]
        close = [row for row in around if isinstance(row, dict) and row["noun"] == noun and not its]
        near += sorted(close, key=lambda row: -_number_at(row, "nearness"))[:NEAR_MOST]
    return {"found": found, "searched": searched, **({"near": near} if "near" in rows[0] else {})}


FOUND: Final[Join] = Join(_same, _found)


# Lists


def _kind_of(asked: Asked) -> ListKind | None:
    return asked.kinds.get(str(asked.fields.get("kind")))


class _Wanted:
    """Order and part of a list that a request wants, as `ListQuery` reads them."""

    def __init__(self, fields: Row, kind: ListKind) -> None:
        self.kind = kind
        self.columns = _texts(fields, "columns")
        self.orders = [(each.removeprefix("-"), each.startswith("-")) for each in _texts(fields, "sort")]
        self.reverse = fields.get("reverse") is True
        if fields.get("groups") is True:
            self.orders.insert(0, (GROUP_COLUMN, self.reverse))
        self.page = _amount(fields, "page", 0)
        self.page_size = _amount(fields, "page_size", PAGE_DEFAULT)
        self.whole = fields.get("whole") is True
        self.after = _amount(fields, "after", 0)
        self.count = max(min(_amount(fields, "count", PAGE_MOST), PAGE_MOST), 1)
        named = fields.get("named") or fields.get("state") or _texts(fields, "filters")
        chosen = bool(self.orders or self.reverse or named)
        self.is_plain = not (chosen or self.page or self.whole)
        """True for all objects in the order in which they are found: broker by broker."""
        self.backwards = self.reverse and not self.orders and not kind.by_name
        """True for the reverse of the order in which objects are found."""
        self.by_name = kind.by_name and bool(chosen or self.whole or self.page)
        """True for the order of names, among equals."""

    def keys(self) -> list[str]:
        """Return the columns by which rows are merged."""
        return [*self.kind.name_at, *[column for column, _ in self.orders if column != "name"]]

    def ordered(self, rows: list[Row]) -> list[Row]:
        """Return the rows of all brokers, each in this order, as one."""
        orders = self.orders
        if self.by_name and not (orders and orders[0][0] == "name"):
            rows = sorted(rows, key=self._name, reverse=self.reverse and not orders)
        for column, descending in orders[::-1]:
            if column == "name":
                rows = sorted(rows, key=self._name, reverse=descending != self.reverse)
            else:
                rows = self._by_column(rows, column, descending != self.reverse)
        return rows

    def _by_column(self, rows: list[Row], column: str, descending: bool) -> list[Row]:
        inside, is_number = column.rpartition(".")[0], self.kind.table.number(column) is not None

        def key(row: Row) -> Key:
            value = field_at(row, column)
            if value is None and is_number and inside and field_at(row, inside) is None:
                return key_of(0)  # A queue without messages has no rates in its row, and is sorted by them.
            return key_of(value)

        return sorted(rows, key=key, reverse=descending)

    def _name(self, row: Row) -> str:
        for path in self.kind.name_at:
            value = field_at(row, path)
            if value not in (None, ""):
                return str(value)
        return ""

    def merged(self, rows: list[Row]) -> list[Row]:
        """Return the rows of all brokers, each of which has all objects, with their numbers of Penstock's added."""
        found: dict[str, list[Row]] = {}
        for row in rows:
            found.setdefault(self._name(row), []).append(row)
        return [_with_sum(each, "penstock") for each in found.values()]

    def cut(self, rows: list[Row]) -> list[Row]:
        """Return the rows with the wanted columns alone."""
        if not self.columns:
            return rows
        table = self.kind.table
        kept = table.select(self.columns)
        paths = [each.path for each in kept]
        if any(each.leaf == SPREAD for each in kept):
            added = [each.path for each in table.select([*self.columns, *self.keys()]) if each.path not in paths]
            return [_without(row, added) for row in rows]
        return [_only(row, [(each.inside, each.leaf) for each in kept]) for row in rows]


def _with_sum(copies: list[Row], field: str) -> Row:
    """Return the first of copies, with the sum of one field."""
    own = [row[field] for row in copies if field in row]
    return {**copies[0], field: _sum(own)} if own else copies[0]


def _only(row: Row, fields: list[tuple[str, str]]) -> Row:
    """Return a row with these fields alone, each with the object that it is in."""
    cut: Row = {}
    for inside, leaf in fields:
        its = field_at(row, inside) if inside else row
        if isinstance(its, dict) and leaf in its:
            inner = cut.setdefault(inside, {}) if inside else cut
            assert isinstance(inner, dict)
            inner[leaf] = its[leaf]
    return cut


def _without(row: Row, paths: list[str]) -> Row:
    """Return a row without these fields, and without the objects that have no others."""
    left = {name: value for name, value in row.items() if name not in paths}
    for path in paths:
        inside, _, leaf = path.partition(".")
        its = left.get(inside)
        if leaf and isinstance(its, dict):
            rest = _without(its, [leaf])
            left = {**left, inside: rest} if rest else _without(left, [inside])
    return left


def _spread_list(asked: Asked, kind: ListKind | None, copied: bool = False) -> list[Row | None]:
    """Return the requests for one list. Raises PreconditionFailed (406) for a place that no page has named.

    A plain list is read broker by broker: the next page begins where the last one ended, in the same broker or another,
    so that a page costs the same wherever it is.
    """
    fields = asked.fields
    if kind is None:
        return _same(asked)
    wanted = _Wanted(fields, kind)
    if not 1 <= wanted.page_size <= PAGE_MOST or len(wanted.columns) > COLUMNS_MOST:
        return _same(asked)  # Each broker refuses it.
    if wanted.is_plain and not copied:
        broker, place = _place_in(asked)
        later: list[Row | None] = [{**fields, "after": 0} for _ in range(broker + 1, asked.brokers)]
        return [*[None for _ in range(broker)], {**fields, "after": place}, *later]
    changed: Row = {**fields, JOINED: True}
    if wanted.columns:
        changed["columns"] = list(dict.fromkeys([*wanted.columns, *wanted.keys()]))
    if wanted.page:
        changed |= {"page": 1, "page_size": wanted.page * wanted.page_size}
    elif not wanted.whole:
        changed |= {"after": 0, "count": wanted.after + wanted.count}
    return [dict(changed) for _ in range(asked.brokers)]


def _join_list(asked: Asked, answers: list[Answered], kind: ListKind | None, copied: bool = False) -> Answer:
    """Return one list. Raises an error if no broker has an answer, or none has objects and a column is unknown."""
    if kind is not None and _Wanted(asked.fields, kind).backwards:
        answers = answers[::-1]
    errors = [each for each in answers if isinstance(each, BrokerError)]
    heads = [each for each in answers if isinstance(each, dict)]
    plain = [each for each in answers if isinstance(each, list)]
    rows = [*_rows_at(heads, "items"), *[row for each in plain for row in each]]
    if errors and ((not heads and not plain) or (not rows and isinstance(errors[0], PreconditionFailed))):
        raise errors[0]
    if kind is None:
        return None
    wanted = _Wanted(asked.fields, kind)
    if wanted.is_plain and not copied and not plain:
        return _page_of_brokers(asked, answers, wanted.count)
    if not heads and not plain:
        return None
    count = _most if copied else _total
    rows = wanted.ordered(wanted.merged(rows) if copied else rows)
    if plain:
        return wanted.cut(rows)
    if wanted.page:
        size = wanted.page_size
        filtered = count(heads, "filtered_count")
        shown = rows[(wanted.page - 1) * size : wanted.page * size]
        own = [each["penstock"] for each in heads if "penstock" in each]
        return {
            "filtered_count": filtered,
            "item_count": len(shown),
            "page": wanted.page,
            "page_count": max((filtered + size - 1) // size, 1),
            "page_size": size,
            "total_count": count(heads, "total_count"),
            **({"penstock": _sum(own)} if own else {}),
            "items": wanted.cut(shown),
        }
    last = wanted.after + wanted.count
    more = len(rows) > last or any(each.get("next") is not None for each in heads)
    return {"items": wanted.cut(rows[wanted.after : last]), "next": last if more else None}


def _page_of_brokers(asked: Asked, answers: list[Answered], most: int) -> Row:
    """Return the page of a plain list: that of one broker, and of the next ones as far as all their items fit."""
    first, _ = _place_in(asked)
    items: list[object] = []
    for broker in range(first, asked.brokers):
        answer = answers[broker]
        if not isinstance(answer, dict):
            continue
        its = _list_at(answer, "items")
        if items and len(items) + len(its) > most:
            return {"items": items, "next": [broker, 0]}
        items += its
        if answer.get("next") is not None:
            return {"items": items, "next": [broker, answer["next"]]}
    return {"items": items, "next": None}


def list_join(kind: ListKind) -> Join:
    """Return the join of the lists of a kind: in the order of the request, and among equals in that of the kind."""
    return Join(
        lambda asked: _spread_list(asked, kind),
        lambda asked, answers: _join_list(asked, answers, kind),
    )


LIST: Final[Join] = Join(
    lambda asked: _spread_list(asked, _kind_of(asked)),
    lambda asked, answers: _join_list(asked, answers, _kind_of(asked)),
)
"""Lists of the kind that the request names."""


def copies_join(kind: ListKind) -> Join:
    """Return the join of lists of which each broker has all objects, with numbers of its own."""
    return Join(
        lambda asked: _spread_list(asked, kind, True),
        lambda asked, answers: _join_list(asked, answers, kind, True),
    )


# Rows under one name


def _named(name: str, merge: Callable[[list[object]], list[object]]) -> Join:
    """Return the join of lists that are the field of an object on the control exchange, and plain over HTTP."""

    def join(asked: Asked, answers: list[Answered]) -> Answer:
        plain = [row for each in answers if isinstance(each, list) for row in each]
        rows = _rows_of(answers)
        if not rows and any(isinstance(each, list) for each in answers):
            return [row for row in merge([*plain]) if isinstance(row, dict)]
        return {name: merge(_concatenated(rows, name))} if rows else None

    return Join(_same, join)


def _of_hosts_first(rows: list[object]) -> list[object]:
    """Return parameters of virtual hosts, followed by global ones, of which each broker has a copy."""
    hosts = [row for row in rows if isinstance(row, dict) and "vhost" in row]
    return [*hosts, *_distinct([row for row in rows if isinstance(row, dict) and "vhost" not in row])]


def _by_pattern(rows: list[object]) -> list[object]:
    """Return settings by scope and pattern; each broker has those that count for all virtual hosts."""
    patterns = [row for row in _distinct(rows) if isinstance(row, dict)]
    scopes = list(SCOPES)

    def key(row: Row) -> tuple[int, str]:
        scope, pattern, vhost = str(row["scope"]), str(row["pattern"]), row.get("vhost")
        stored = place(scope, None if vhost is None else str(vhost), pattern) if scope in SEPARATORS else pattern
        return scopes.index(scope), stored

    return [*sorted(patterns, key=key)]


def _by_time_asked(rows: list[object]) -> list[object]:
    jobs = [row for row in rows if isinstance(row, dict)]
    return [*sorted(jobs, key=lambda row: _number_at(row, "asked_at"))]


def _alarms(asked: Asked, answers: list[Answered]) -> Answer:
    """Return the alarms of all brokers: critical ones first, then in the order in which they were raised."""
    rows = _rows_of(answers)
    if not rows:
        return None
    alarms = sorted(_rows_at(rows, "alarms"), key=order_of)
    hooks = [row["hook"] for row in rows if row.get("hook") is not None]
    return {
        "alarms": [*alarms],
        "counts": _sum([row["counts"] for row in rows]),
        "omitted": _total(rows, "omitted"),
        "hook": hooks[0] if hooks else None,
    }


ALARMS: Final[Join] = Join(_same, _alarms)
"""Raised alarms. Each broker has one hook, with the same settings."""
POLICIES: Final[Join] = _named("policies", lambda rows: rows)
PARAMETERS: Final[Join] = _named("parameters", _of_hosts_first)
SETTINGS: Final[Join] = _named("settings", _by_pattern)
JOBS: Final[Join] = _named("jobs", _by_time_asked)
"""Jobs in the order in which they were asked for. Their numbers are each broker's own."""


def _settings_or_one(asked: Asked, answers: list[Answered]) -> Answer:
    return (SETTINGS if asked.fields.get("scope") is None else FIRST).join(asked, answers)


SETTINGS_OR_ONE: Final[Join] = Join(_same, _settings_or_one)


def _changed_settings(asked: Asked, answers: list[Answered]) -> Answer:
    """Return the answer to a change of settings that count for all virtual hosts."""
    rows = _rows_of(answers)
    if not rows:
        return None
    of_hosts = rows[0]["scope"] in OF_HOSTS
    count = (_total if of_hosts else _most)(rows, "matches")
    parts = [part for row in rows for part in (row.get(JOINED),) if isinstance(part, dict)]
    names = [str(name) for name in _concatenated(parts if of_hosts else parts[:1], "names")]
    joined: Row = {**_without(rows[0], [JOINED]), "matches": count, "queues": _total(rows, "queues")}
    told = matches_sentences(str(field_at(rows[0], f"{JOINED}.subject")), str(rows[0]["scope"]), names, count)
    shown = told if rows[0]["pattern"] or not count else []
    joined["sentences"] = [*shown, *_distinct(_concatenated(parts, "sentences"))]
    if "warnings" in joined:
        joined["warnings"] = _distinct(_concatenated(rows, "warnings"))
    return joined


OF_HOSTS: Final[tuple[str, ...]] = ("queue", "address", "vhost")
"""Scopes whose objects one broker has; users are known to all."""
CHANGED_SETTINGS: Final[Join] = Join(_marked, _changed_settings)


# Health checks


LIMIT_REACHED: Final = "connection limit reached"
"""Reason of a failed check of the number of connections."""


def _verdicts(asked: Asked, answers: list[Answered]) -> Answer:
    """Return the verdict of a check: it has failed if one of a broker has, or if all together are at a limit."""
    rows = _rows_of(answers)
    if not rows:
        return None
    joined = dict(next((row for row in rows if row.get("status") == FAILED), rows[0]))
    for name in ("alarms", "virtual-hosts"):
        if name in joined:
            joined[name] = _distinct(_concatenated(rows, name))
    if "current" in joined:
        current, limit = _total(rows, "current"), joined["limit"]
        reached = isinstance(limit, int) and current >= limit
        joined = verdict(LIMIT_REACHED if reached else "", current=current, limit=limit)
    return joined


VERDICTS: Final[Join] = Join(_same, _verdicts)


def _health(asked: Asked, answers: list[Answered]) -> Answer:
    """Return all checks, each of all brokers."""
    rows = _rows_of(answers)
    if not rows:
        return None
    found: dict[str, list[Row]] = {}
    for check in _rows_at(rows, "checks"):
        found.setdefault(str(check["check"]), []).append(check)
    checks: list[object] = []
    failed: list[str] = []
    for name, its in found.items():
        reasons = _distinct([each["reason"] for each in its if each["status"] == FAILED])
        checks.append({"check": name, "status": FAILED if reasons else "ok",
                       "reason": "; ".join([str(each) for each in reasons]) or None})  # fmt: skip
        failed += [name] if reasons else []
    return {**verdict(f"{', '.join(failed)} failed" if failed else ""), "node": rows[0]["node"], "checks": checks}


HEALTH: Final[Join] = Join(_same, _health)


# The node


def _nodes(asked: Asked, answers: list[Answered]) -> Answer:
    """Return the node as one: its processes together, and the fullest disk and descriptors among them."""
    plain = [row for each in answers if isinstance(each, list) for row in each]
    rows = plain or _rows_of(answers)
    if not rows:
        return None
    fullest = max(rows, key=lambda row: _number_at(row, "fd_used"))
    lowest = min(rows, key=lambda row: _number_at(row, "disk_free") - _number_at(row, "disk_free_limit"))
    joined: Row = {
        **rows[0],
        **{name: _total(rows, name) for name in ("mem_used", "mem_limit", "sockets_used", "proc_used")},
        **{name: any(row[name] for row in rows) for name in ("mem_alarm", "disk_free_alarm")},
        **{name: fullest[name] for name in ("fd_used", "fd_total")},
        **{name: lowest[name] for name in ("disk_free", "disk_free_limit")},
    }
    return [joined] if plain else joined


NODES: Final[Join] = Join(_same, _nodes)
OF_NODES: Final[tuple[str, ...]] = (
    *("mem_used", "mem_limit", "sockets_used", "proc_used", "mem_alarm", "disk_free_alarm"),
    *("fd_used", "fd_total", "disk_free", "disk_free_limit"),
)
"""Fields of the node that are those of all its processes."""
PORTS: Final = "ports"
"""Field of a request for the resources, and of its answer: numbers of connections by the port of their listener."""
TONES: Final[tuple[str, ...]] = (NORMAL, WARN, STOP)


def _resources(asked: Asked, answers: list[Answered]) -> Answer:
    """Return the resources of all brokers: sums, of disks and descriptors the fullest one."""
    rows = _rows_of(answers)
    if not rows:
        return None
    found: dict[str, list[Row]] = {}
    for resource in _rows_at(rows, "resources"):
        found.setdefault(str(resource["name"]), []).append(resource)
    stores = [row["store"] for row in rows if isinstance(row["store"], dict)]
    fails = [store["fails"] for store in stores if store["fails"] is not None]
    return {
        **rows[0],
        **({PORTS: _sum([row.get(PORTS) for row in rows])} if PORTS in rows[0] else {}),
        "uptime_s": min([_number_at(row, "uptime_s") for row in rows]),
        "memory_used": _total(rows, "memory_used"),
        "store": {
            "kept": any(store["kept"] for store in stores),
            "used": _total(stores, "used"),
            "unwritten": _total(stores, "unwritten"),
            "fails": fails[0] if fails else None,
        },
        "resources": [_resource(name, its) for name, its in found.items()],
        "certificates": _distinct(_concatenated(rows, "certificates")),
    }


def _resource(name: str, its: list[Row]) -> Row:
    fullest = max(its, key=lambda row: _number_at(row, "used") / (_number_at(row, "limit") or 1))
    if name not in ("disk", "files"):
        limits: Row = {each: _sum_of_all(its, each) for each in ("limit", "stop", "resume")}
        fullest = {**fullest, "used": _total(its, "used"), **limits}
    soon = [row["hurts_in_s"] for row in its if isinstance(row["hurts_in_s"], (int, float))]
    tones = [str(row["tone"]) for row in its]
    return {**fullest, "hurts_in_s": min(soon, default=None), "tone": max(tones, key=TONES.index)}


def counted_listener(listener: Row, counts: Row) -> Row:
    """Return a listener with the number of its connections in counts by port; those of HTTP are not counted."""
    if listener["connections"] is None:
        return listener
    return {**listener, "connections": _amount(counts, str(listener["port"]), 0)}


RESOURCES: Final[Join] = Join(_same, _resources)
OF_RESOURCES: Final[tuple[str, ...]] = ("memory_used", "store", "resources", PORTS)
"""Resources that are those of all brokers of a node; all else is the node's."""


# Displays of all


def _value_of(order: str, row: Row) -> float:
    """Return the value of a queue in an order of `top`, as its `ORDERS` have it."""
    if order == "blocked":
        since = field_at(row, "penstock.road.closed_for_s")
        return since if isinstance(since, (int, float)) else -1.0
    if order == "fill":
        return _fill(row)
    if order == "bytes":
        return _number_at(row, "penstock.depth.bytes")
    if order == "rate":
        return _number_at(row, "penstock.rates.publish") + _number_at(row, "penstock.rates.deliver_get")
    return 0.0


def _fill(row: Row) -> float:
    return _number_at(row, "penstock.fill_percent") if _number_at(row, "messages") else 0.0


def top_join(count_most: int, count_default: int, histories_most: int) -> Join:
    """Return the join of the first queues in an order, and sums over all."""

    def join(asked: Asked, answers: list[Answered]) -> Answer:
        rows = _rows_of(answers)
        if not rows:
            return None
        order = str(rows[0]["order"])

        def rank(row: Row) -> tuple[float, float, float]:
            return _value_of(order, row), _fill(row) if order == "blocked" else 0.0, _number_at(row, "messages")

        count = max(min(_amount(asked.fields, "count", count_default), count_most), 1)
        items = sorted(_rows_at(rows, "items"), key=rank, reverse=True)[:count]
        items = [*items[:histories_most], *[_without(row, ["history"]) for row in items[histories_most:]]]
        connections, sums = _total(rows, "connections"), _sum([row["sums"] for row in rows])
        return {**rows[0], "connections": connections, "sums": sums, "items": items}

    return Join(_same, join)


def _status(asked: Asked, answers: list[Answered]) -> Answer:
    rows = _rows_of(answers)
    if not rows:
        return None
    numbers = ("connection_count", "queue_count", "bindings", "unroutable")
    return {
        **rows[0],
        **{name: _total(rows, name) for name in numbers},
        "exchanges": _most(rows, "exchanges"),  # An empty virtual host has the predeclared ones.
        "slowed": _concatenated(rows, "slowed")[:SLOWED_SHOWN],
        "connections": _concatenated(rows, "connections")[:STATUS_MOST],
        "disk": _disk([disk for row in rows for disk in (row.get("disk"),) if isinstance(disk, dict)]),
        "certificates": _distinct(_concatenated(rows, "certificates")),
        "queues": _concatenated(rows, "queues")[:STATUS_MOST],
        "pools": _pools(rows),
        "uptime_s": min([_number_at(row, "uptime_s") for row in rows]),
        "memory": _sum_of_all(rows, "memory"),
        "connections_max": _total(rows, "connections_max") if _all_have(rows, "connections_max") else None,
        "lingering": _sum([row.get("lingering") for row in rows]),
    }


def _all_have(rows: list[Row], name: str) -> bool:
    return all(row.get(name) is not None for row in rows)


def _sum_of_all(rows: list[Row], name: str) -> object:
    """Return the sum of amounts of several brokers; None if one of them has no limit."""
    return _sum([row.get(name) for row in rows]) if _all_have(rows, name) else None


def _disk(disks: list[Row]) -> Row | None:
    """Return the state of the disks of several stores; what is free is that of the fullest one."""
    if not disks:
        return None
    free = [each for disk in disks for each in (disk.get("free"),) if isinstance(each, int)]
    fullest = next((disk for disk in disks if free and disk.get("free") == min(free)), disks[0])
    numbers = {name: _total(disks, name) for name in ("used", "stored", "unwritten")}
    of_fullest = {"free": min(free, default=None), "free_least": fullest.get("free_least")}
    return {**disks[0], **numbers, **of_fullest, "gates": _concatenated(disks, "gates")}


def _pools(rows: list[Row]) -> list[Row]:
    """Return the pools of all brokers: what is taken, and permitted, of those with one name is added."""
    found: dict[str, list[Row]] = {}
    for pool in _rows_at(rows, "pools"):
        found.setdefault(str(pool["pool"]), []).append(pool)
    joined: list[Row] = []
    for its in found.values():
        holders: dict[tuple[str, str], Row] = {}
        for holder in _rows_at(its, "holders"):
            key = (str(holder["user"]), str(holder["vhost"]))
            units = _number_at(holders.get(key, {}), "units") + _number_at(holder, "units")
            holders[key] = {**holder, "units": units}
        largest = sorted(holders.values(), key=lambda row: -_number_at(row, "units"))[:SHOWN_HOLDERS]
        numbers = {name: _total(its, name) for name in ("taken", "limit", "refused")}
        joined.append({**its[0], **numbers, "holders": largest})
    return joined


STATUS: Final[Join] = Join(_same, _status)


def _why(asked: Asked, answers: list[Answered]) -> Answer:
    if asked.fields.get("user") is not None:
        return _why_user(answers)
    if any(asked.fields.get(name) is not None for name in ("connection", "channel", "link")):
        return _first(asked, answers)
    rows = _rows_of(answers)
    parts = [part for row in rows for part in (row.get(JOINED),) if isinstance(part, dict)]
    if not rows:
        return None
    gates = sorted(
        zip(_rows_at(rows, "gates"), _concatenated(parts, "gates"), strict=True),
        key=lambda gate: -_number_at(gate[0], "blocked_for_s"),
    )
    more = _total(rows, "more_gates") + max(len(gates) - GATES_TOLD, 0)
    memory = _memory(rows)
    held = [held_sentence(each) for each in memory if _number_at(each, "bytes") >= SAID_FROM]
    said: Row = {
        "gates": [sentences for _, sentences in gates[:GATES_TOLD]],
        "more_gates": more,
        "memory": held,
        **{name: _counted(parts, name) for name in ("unread", "slowed", "parked")},
        **{name: _concatenated(parts, name) for name in ("disk", "pools", "jobs")},
    }
    return {
        **_without(rows[0], [JOINED]),
        "gates": [row for row, _ in gates[:GATES_TOLD]],
        "more_gates": more,
        "unread": _concatenated(rows, "unread")[:GATES_TOLD],
        "slowed": _concatenated(rows, "slowed")[:GATES_TOLD],
        "memory": memory,
        "pools": _pools(rows),
        "sentences": composed(said),
    }


def _counted(parts: list[Row], name: str) -> Row:
    """Return lines and the number of all."""
    its = [part for row in parts for part in (row.get(name),) if isinstance(part, dict)]
    return {"lines": _concatenated(its, "lines"), "count": _total(its, "count")}


def _memory(rows: list[Row]) -> list[Row]:
    found: dict[str, list[Row]] = {}
    for held in _rows_at(rows, "memory"):
        found.setdefault(str(held["kind"]), []).append(held)
    joined: list[Row] = []
    for its in found.values():
        holders = sorted(_rows_at(its, "holders"), key=lambda row: -_number_at(row, "bytes"))[:HOLDERS_SHOWN]
        joined.append({**its[0], "bytes": _total(its, "bytes"), "count": _total(its, "count"), "holders": holders})
    return joined


def _why_user(answers: list[Answered]) -> Answer:
    """Return the views of a user's connections, which several brokers may have. Raises the error of all of them."""
    rows = [each for each in answers if isinstance(each, dict)]
    if not rows:
        return _rows_of(answers)[0]
    connections = _concatenated(rows, "connections")
    more = _total(rows, "more_connections") + max(len(connections) - CONNECTIONS_SHOWN, 0)
    sentences = [*_concatenated(rows, "sentences")]
    return {
        **rows[0],
        "connections": connections[:CONNECTIONS_SHOWN],
        "more_connections": more,
        "sentences": sentences,
    }


WHY: Final[Join] = Join(_marked, _why)


# One page after another


def _spread_records(asked: Asked) -> list[Row | None]:
    after = asked.fields.get("after")
    if not isinstance(after, list) or len(after) != asked.brokers:
        return _same(asked)
    return [{**asked.fields, "after": each} for each in after]


def _records(asked: Asked, answers: list[Answered]) -> Answer:
    """Return records of flow logs by time; `next` has the number of each broker. Raises the first error."""
    rows = _rows_of(answers)
    items = sorted(_rows_at(rows, "items"), key=lambda record: _number_at(record, "wall"))
    return {"items": [*items], "next": [row["next"] for row in rows]}


WATCH: Final[Join] = Join(_spread_records, _records)


def export_join(own: tuple[str, ...]) -> Join:
    """Return the join of definitions, by section; `own` are the sections of which each broker has entries of its own.

    On the control exchange such a section is read broker by broker: `next` is the number of the broker and the place
    there. Of each other section all brokers have copies, and all of it is read for each page.
    """

    def spread(asked: Asked) -> list[Row | None]:
        fields = asked.fields
        if fields.get("whole") is True or fields.get("section") is None:
            return _same(asked)
        if fields.get("section") not in own:
            return [{**fields, "after": 0, JOINED: True} for _ in range(asked.brokers)]
        broker, place = _place_in(asked)
        return [{**fields, "after": place} if number == broker else None for number in range(asked.brokers)]

    def join(asked: Asked, answers: list[Answered]) -> Answer:
        rows, section = _rows_of(answers), asked.fields.get("section")
        if not rows:
            return None
        if asked.fields.get("whole") is True:
            lists = {name: _concatenated(rows, name) for name in rows[0] if isinstance(rows[0][name], list)}
            return {**rows[0], **{name: each if name in own else _copied(each) for name, each in lists.items()}}
        if section is None:
            return rows[0]
        if section in own:
            broker, _ = _place_in(asked)
            following = rows[0].get("next")
            further = [broker + 1, 0] if broker + 1 < asked.brokers else None
            return {**rows[0], "next": further if following is None else [broker, following]}
        items, after = _copied(_concatenated(rows, "items")), _amount(asked.fields, "after", 0)
        last = after + PAGE_MOST
        return {"items": items[after:last], "next": last if len(items) > last else None}

    return Join(spread, join)


def _place_in(asked: Asked) -> tuple[int, int]:
    """Return the broker whose page is wanted, and the place there. Raises PreconditionFailed (406)."""
    after = asked.fields.get("after")
    if after is None or after == 0:
        return 0, 0
    if isinstance(after, list) and len(after) == 2:
        broker, place = after
        if isinstance(broker, int) and isinstance(place, int) and 0 <= broker < asked.brokers:
            return broker, place
    raise PreconditionFailed(f"'after' must be the 'next' of the page before, not {worded(after)}")


def _copied(rows: list[object]) -> list[object]:
    """Return each entry of a section once: settings by pattern, and permissions by user, each in every virtual host."""
    entries = [row for row in _distinct(rows) if isinstance(row, dict)]
    if all("scope" in row for row in entries):
        scopes = list(SCOPES)
        return [*sorted(entries, key=lambda row: (scopes.index(str(row["scope"])), str(row["pattern"])))]
    order: dict[object, int] = {}
    for row in entries:
        order.setdefault(row.get("user"), len(order))
    return [*sorted(entries, key=lambda row: order[row.get("user")])]
