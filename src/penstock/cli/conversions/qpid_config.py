"""Conversion of the output of qpid-config of Qpid C++, and of its commands.

Forms: the lists of `qpid-config queues` and `qpid-config exchanges`, `qpid-config queues -b`, and lines such as
`qpid-config add queue NAME --max-queue-size=1000`.
"""

from __future__ import annotations

import re
import shlex
from typing import Final

from penstock.cli.conversions.conversion import Conversion, check_size, check_spelling, plain, reasons
from penstock.errors import ConfigError
from penstock.settings.table import ALIASES

ARGUMENTS: Final = {
    "max-queue-size": "qpid.max_size",
    "max-queue-count": "qpid.max_count",
    "flow-stop-size": "qpid.flow_stop_size",
    "flow-resume-size": "qpid.flow_resume_size",
    "flow-stop-count": "qpid.flow_stop_count",
    "flow-resume-count": "qpid.flow_resume_count",
    "limit-policy": "qpid.policy_type",
    "group-header": "qpid.group_header_key",
}
"""Options of a queue, and the arguments that the tool derives from them."""
OTHERS: Final = reasons(
    {
        "the store has no settings for each queue": "file-size= file-count= efp-partition-num= efp-pool-file-size= "
        "wcache-page-size= wcache-num-pages=",
        "there are no last-value queues": "order= lvq-key= ive",
        "a group moves when all its messages are settled": "shared-groups",
        "there are no links between brokers": "replicate= start-replica=",
        "the flow log has the events of queues": "generate-queue-events=",
        "set dead-letter-exchange for rejected messages": "alternate-exchange=",
        "exchanges number no messages": "sequence",
        "an exclusive queue ends with its connection here": "excl exclusive",
        "it was for that command": "broker= broker-addr= timeout= sasl-mechanism= sasl-service-name= ssl-certificate= "
        "ssl-key= ha-admin recursive ignore-default force force-if-not-empty force-if-used",
    }
)
"""Other options, with `=` if they have a value, and the reason why they have no meaning in Penstock."""
DURABLE: Final = "durable"
AUTO_DELETE: Final = ("auto-del", "auto-delete")
SHORT: Final = {"-b": "broker", "-a": "broker-addr", "-t": "timeout", "-r": "recursive"}
UNDASHED: Final = ("auto-del", "excl")
"""Words of a list that have no dashes."""
TYPES: Final = ("direct", "fanout", "topic", "headers")
BOUND: Final = re.compile(r"\s+bind \[(?P<key>.*)\] => (?P<name>'.*'|\S+)(?:\s+(?P<arguments>\{.*\}))?\s*")
SUBJECT: Final = re.compile(r"(?P<kind>Queue|Exchange) '(?P<name>.*)'(?: \(\w+\))?")
NOTHING: Final = re.compile(r"\s*(?:#.*|=*|-+)")


def convert_qpid_config(data: bytes) -> Conversion:
    """Convert lists and commands, line by line. Raises ConfigError with the line if it is neither."""
    check_size(data)
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError as error:
        raise ConfigError(f"the file is not UTF-8: {error.reason} at byte {error.start}") from None
    reader = _Reader()
    for number, line in enumerate(lines, 1):
        if not NOTHING.fullmatch(line):
            reader.read(number, line)
    return reader.found


class _Reader:
    """Reader of the lines, with the list of the present line."""

    def __init__(self) -> None:
        self.found = Conversion()
        self._list = ""
        """Kind of the list after its title line: queue or exchange."""
        self._kind, self._subject = "", ""
        """Kind and name of the object of the following bindings."""
        self._listed: set[tuple[str, str]] = set()
        """Kinds and names of queues and exchanges."""

    def read(self, line: int, text: str) -> None:
        """Convert one line."""
        title = re.sub(r"\s+", " ", text.strip())
        subject, bound = SUBJECT.fullmatch(text), BOUND.fullmatch(text)
        if title in ("Queue Name Attributes", "Type Exchange Name Attributes"):
            self._list = "queue" if title.startswith("Queue") else "exchange"
        elif subject is not None:
            self._kind, self._subject = subject["kind"], subject["name"]
            self._announced(line)
        elif bound is not None and self._subject:
            self._bound(line, bound)
        elif re.match(r"\s*(?:\S*/)?qpid-config\s", text):
            self._command(line, *_split(line, _words(line, text)[1:]))
        elif self._list:
            self._row(line, *_split(line, [f"--{word}" if word in UNDASHED else word for word in _words(line, text)]))
        else:
            raise ConfigError(
                f"line {line}: '{title[:60]}' is neither a command qpid-config, nor a row below a title of its lists"
            )

    def _command(self, line: int, names: list[str], options: list[str]) -> None:
        """Convert `add queue`, `add exchange` and `bind`; options stand anywhere."""
        if names[:2] == ["add", "queue"] and len(names) == 3:
            self._queue(line, names[2], options)
        elif names[:2] == ["add", "exchange"] and len(names) == 4:
            self._exchange(line, names[2], names[3], options)
        elif names[:1] == ["bind"] and len(names) in (3, 4):
            self._binding(line, names[1], names[2], "".join(names[3:]))
            self._leave(line, options)
        else:
            self.found.remark(line, " ".join(names), "only add queue, add exchange and bind by a key are read")

    def _row(self, line: int, names: list[str], options: list[str]) -> None:
        """Convert a row of a list; the default exchange has no name."""
        if self._list == "queue":
            self._queue(line, names[0], options)
        else:
            self._exchange(line, names[0], "".join(names[1:]), options)

    def _queue(self, line: int, name: str, options: list[str]) -> None:
        self._listed.add(("queue", name))
        arguments: dict[str, object] = {}
        flags = {"durable": False, "auto_delete": False}
        for option in options:
            key, _, value = option.partition("=")
            if key in ARGUMENTS:
                self._argument(line, key, value, arguments)
            elif key == "argument":
                self._other_argument(line, value, arguments)
            elif key == DURABLE:
                flags["durable"] = True
            elif key in AUTO_DELETE:
                flags["auto_delete"] = True
            else:
                self._leave(line, [option])
        self.found.add(line, "queues", {"name": name, **flags, "arguments": arguments})

    def _argument(self, line: int, key: str, value: str, arguments: dict[str, object]) -> None:
        if not value:
            raise ConfigError(f"line {line}: the option --{key} needs a value")
        if value == "none" and key == "limit-policy":
            self.found.remark(line, f"--{key}=none", "it is the default: the queue blocks its producers")
        else:
            arguments[ARGUMENTS[key]] = plain(value.replace("-", "_")) if key == "limit-policy" else plain(value)

    def _other_argument(self, line: int, text: str, arguments: dict[str, object]) -> None:
        """Add an argument by its own name; the broker would refuse an unknown argument of Qpid."""
        name, _, value = text.partition("=")
        if name.startswith("qpid.") and name not in ALIASES:
            check_spelling(line, name, ALIASES)
            self.found.remark(line, f"argument {name}", "it has no meaning here")
        else:
            arguments[name] = plain(value)

    def _exchange(self, line: int, kind: str, name: str, options: list[str]) -> None:
        self._listed.add(("exchange", name))
        if kind not in TYPES:
            self.found.remark(line, f"exchange {name}", f"there are no exchanges of type {kind}")
            return
        self._leave(line, [option for option in options if option not in (DURABLE, *AUTO_DELETE)])
        if name and not name.startswith("amq."):
            flags = {"durable": DURABLE in options, "auto_delete": any(word in options for word in AUTO_DELETE)}
            entry = {"name": name, "type": kind, **flags, "internal": False, "arguments": {}}
            self.found.add(line, "exchanges", entry)

    def _announced(self, line: int) -> None:
        """Remark on a queue or exchange whose bindings follow, but that no earlier list has."""
        subject = (self._kind.lower(), self._subject)
        if self._subject and subject not in self._listed and not self._subject.startswith("amq."):
            why = "a list with -b has only bindings; put the list without -b before it"
            self.found.remark(line, " ".join(subject), why)

    def _bound(self, line: int, bound: re.Match[str]) -> None:
        other = bound["name"].strip("'")
        exchange, queue = (other, self._subject) if self._kind == "Queue" else (self._subject, other)
        if bound["arguments"] not in (None, "{}"):
            why = f"its arguments {bound['arguments']} are not read: bind it by `penstock bind`"
            self.found.remark(line, f"binding of {queue} to {exchange}", why)
        else:
            self._binding(line, exchange, queue, bound["key"])

    def _binding(self, line: int, exchange: str, queue: str, key: str) -> None:
        """Add a binding, except to the default exchange, which has its bindings by itself."""
        if exchange:
            binding = {"source": exchange, "destination": queue, "destination_type": "queue", "routing_key": key}
            self.found.add(line, "bindings", {**binding, "arguments": {}})

    def _leave(self, line: int, options: list[str]) -> None:
        for option in options:
            key = option.partition("=")[0]
            reason = OTHERS.get(f"{key}=") or OTHERS.get(key)
            if reason is None:
                known = [*ARGUMENTS, *(name.removesuffix("=") for name in OTHERS), DURABLE, *AUTO_DELETE, "argument"]
                check_spelling(line, key, known)
                raise ConfigError(f"line {line}: the option --{key} is not known")
            self.found.remark(line, f"--{option}", reason)


def _words(line: int, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"line {line}: {str(error).lower()}") from None


def _split(line: int, words: list[str]) -> tuple[list[str], list[str]]:
    """Return the names of a line, and its options without dashes, each with its value behind `=`."""
    names: list[str] = []
    options: list[str] = []
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            names.append(word)
            continue
        key, sign, value = (SHORT.get(word) or word.removeprefix("--")).partition("=")
        if not sign and (key in ARGUMENTS or f"{key}=" in OTHERS or key == "argument"):
            sign, value = "=", next(rest, "")
        options.append(f"{key}{sign}{value}")
    if not names:
        raise ConfigError(f"line {line}: a name is missing")
    return names, options
