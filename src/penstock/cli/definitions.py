"""Commands of definitions: export, and import with optional skipping."""

from __future__ import annotations

import json
import re
import secrets
import sys
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import click

from penstock.cli.common import control_session, print_result, say, say_json, write_private, writing
from penstock.cli.job_progress import shown_progress
from penstock.cli.parameters import FILE, Json, Url, command, option
from penstock.cli.progress import Progress
from penstock.cli.target import in_vhost
from penstock.errors import ConfigError
from penstock.operations.command_jobs import job_started
from penstock.texts import printable_json

if TYPE_CHECKING:
    from penstock.cli.conversions.conversion import Conversion

ENTRY: Final = re.compile(r"line \d+, \w+\[\d+\]")
"""Position of an error in one entry of a file."""
OTHERWISE: Final = ". --dry-run lists all refused entries, and --skip-refused imports the other entries"


@command("export")
def export(
    file: Annotated[Path, option(kind=FILE, default="-")],
    here: Annotated[bool, "Export only the virtual host in --url, not all."],
    for_rabbitmq: Annotated[bool, "Omit keys of policies that RabbitMQ refuses."],
    as_json: Json,
    url: Url,
) -> None:
    """Write the definitions to FILE, or to standard output.

    FILE can only be read by its owner: hashes and URIs with passwords are in it. It is written when all of it has been
    read. For example: penstock definitions export broker.json
    """
    shown = Progress(wanted=False)
    try:
        with control_session(url) as control:
            found = control.export_definitions(
                everywhere=not here,
                for_rabbitmq=for_rabbitmq,
                progress=lambda entries: shown.tell(f"{entries:,} entries read"),
            )
    except KeyboardInterrupt:
        shown.end()
        say("penstock: interrupted: nothing is written", err=True)
        raise
    shown.end()
    text = printable_json(json.dumps(found, indent=2, ensure_ascii=False)) + "\n"
    counts = {name: len(items) for name, items in found.items() if isinstance(items, list)}
    if str(file) == "-":
        with writing():
            click.echo(text, nl=False)
        say(f"penstock: {_counted(counts)} exported", err=True)
        return
    write_private(file, text)
    print_result(as_json, {"file": str(file), "exported": counts}, f"{file}: {_counted(counts)}")


SKIP: Final = "Skip a kind, such as policies, or one entry, such as exchange:delays; may be repeated."
INTO: Final = (
    "Import the entries of one virtual host of FILE, or without one, into VHOST; leave out users and others that are "
    "about no virtual host."
)
OF: Final = "With --into, the virtual host of FILE; default: the only one."
SOURCES: Final = ("artemis", "qpid-java", "qpid-config")


@command("import")
def import_(
    file: Annotated[Path, option(kind=FILE)],
    here: Annotated[bool, "Import entries without a virtual host into the one in --url."],
    into: Annotated[str | None, option(INTO, "VHOST", names="vhosts")],
    of: Annotated[str | None, option(OF, "VHOST")],
    dry_run: Annotated[bool, "Change nothing; list the effects of the import line by line."],
    skip: Annotated[tuple[str, ...], option(SKIP, "KIND[:NAME]")],
    skip_refused: Annotated[bool, "Skip and list refused entries, instead of refusing the whole file."],
    streams_as_queues: Annotated[bool, "Import streams as durable queues, and list the features that they lose."],
    detach: Annotated[bool, "Do not wait for the end: print the number of the job that imports."],
    source: Annotated[str | None, option("Convert another broker's file.", option="--from", choices=SOURCES)],
    output: Annotated[Path | None, "With --from, write the definitions to this file instead."],
    as_json: Json,
    url: Url,
) -> None:
    """Import the definitions in FILE (- is standard input): all, or none and an error with line and key.

    Existing queues and exchanges stay; a difference from FILE is an error. Policies and parameters are changed. What
    cannot be made without a skipped entry is skipped as well. With --dry-run the exit code is 1 if the import would be
    refused. On a terminal, standard error shows the progress of a long import. With --from, FILE is the configuration
    of another broker, and what has no meaning here is told. For example: penstock definitions import broker.json
    """
    from penstock.client.errors import ControlError

    if of is not None and into is None:
        raise click.UsageError("--of chooses entries for --into: give both")
    if into is not None:
        if here:
            raise click.UsageError("give one of --here and --into")
        url = in_vhost(url, into)
    found = None if source is None else _converted(source, file)
    text = _decoded(file) if found is None else found.text()
    if output is not None:
        _write_converted(output, found, as_json)
        return
    name = f"import-{secrets.token_hex(4)}"
    with control_session(url, name=name) as control, shown_progress(url, name):
        try:
            everywhere = not here and into is None and found is None  # Other brokers' files may name no virtual host.
            answer = control.import_definitions(
                text,
                everywhere=everywhere,
                skip=skip,
                skip_refused=skip_refused,
                streams_as_queues=streams_as_queues,
                move=into is not None,
                of=of or "",
                dry_run=dry_run,
                detach=detach,
            )
        except ControlError as error:
            said = str(error) if found is None else found.relocated(str(error))
            raise ConfigError(said + (OTHERWISE if ENTRY.search(said) and not skip_refused else "")) from None
    if detach:
        print_result(as_json, answer, job_started(answer))
        return
    if found is not None:
        found.complete(answer)
    (_print_differences if dry_run else _print_imported)(answer, as_json)


check = click.Command(
    "check",
    params=[each for each in import_.params if each.name not in ("dry_run", "detach", "output")],
    callback=partial(cast("Any", import_.callback), dry_run=True, detach=False, output=None),
    help="List the effects of an import of FILE line by line, and change nothing.\n\n"
    "Exit code 1: the import would be refused. The options are those of the import. "
    "For example: penstock definitions check broker.json",
)


def _print_imported(answer: dict[str, Any], as_json: bool) -> None:
    sentence = f"{_counted(answer['made'])} created"
    if answer["changed"]:
        sentence += f"; {_counted(answer['changed'])} changed"
    if any(answer["not_imported"].values()):
        sentence += f"; {_counted(answer['not_imported'])} not imported"
    if answer["skipped"]:
        sentence += f"; {_counted(Counter(each['kind'] for each in answer['skipped']))} skipped"
    said = [*_lines(answer["skipped"]), *answer.get("overflow", ()), *answer["notes"], *_remarks(answer)]
    print_result(as_json, answer, *said, sentence)


def _octets(file: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read '{file}': {error.strerror}") from None


def _decoded(file: Path) -> str:
    try:
        return _octets(file).decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"'{file}' is not UTF-8: {error.reason} at byte {error.start}") from None


def _converted(source: str, file: Path) -> Conversion:
    """Return the definitions of another broker's file. Raises ConfigError with file and line."""
    from penstock.cli.conversions import FORMATS

    try:
        return FORMATS[source](_octets(file))
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None


def _write_converted(output: Path, found: Conversion | None, as_json: bool) -> None:
    """Write converted definitions to a file, or to standard output for -; then the remarks go to standard error."""
    if found is None:
        raise ConfigError("--output needs --from: it is for converted definitions")
    answer: dict[str, Any] = {"file": str(output), "converted": {name: len(of) for name, of in found.entries.items()}}
    found.complete(answer)
    if str(output) == "-":
        with writing():
            click.echo(found.text(), nl=False)
        for remark in _remarks(answer):
            say(remark, err=True)
        return
    write_private(output, found.text())
    print_result(as_json, answer, f"{output}: {_counted(answer['converted'])}", *_remarks(answer))


def _remarks(answer: dict[str, Any]) -> list[str]:
    """Return the parts that a conversion has left out, or changed, as sentences."""
    return [
        f"line {each['line']}: {each['subject']}: {'not converted: ' if each['left'] else ''}{each['reason']}"
        for each in answer.get("remarks", [])
    ]


def _print_differences(answer: dict[str, Any], as_json: bool) -> None:
    """Print the effects of an import; exit with 1 if it would be refused."""
    found = answer["differences"]
    counts = Counter(each["change"] for each in found)
    refused = counts["refused"]
    if as_json:
        say_json(answer)
    else:
        for line in (*_lines(found), *answer.get("overflow", ()), *answer["notes"], *_remarks(answer)):
            say(line)
        unchanged = sum(answer["unchanged"].values())
        said = f"{counts['created']:,} to be created, {counts['changed']:,} to be changed, {unchanged:,} unchanged"
        said += f", {counts['skipped']:,} to be skipped" if counts["skipped"] else ""
        skipped = answer["not_imported"]
        say(said + (f"; {_counted(skipped)} not imported" if any(skipped.values()) else ""))
        if refused:
            say(f"{refused:,} refused: nothing would be imported without --skip-refused")
    if refused:
        sys.exit(1)


def _lines(found: list[dict[str, Any]]) -> list[str]:
    return [f"line {each['line']}: {each['subject']}: {_difference(each)}" for each in found]


def _difference(each: dict[str, Any]) -> str:
    """Return a difference of a definition as a clause."""
    said = str(each["change"])
    if "reason" in each:
        said += f": {each['reason']}"
    details = [
        f"{detail['key']} from {detail['from']} to {detail['to']}" if detail["from"] else detail["key"]
        for detail in each.get("details", [])
    ]
    if details:
        said += f": {', '.join(details)}"
    return f"{said}; {each['note']}" if "note" in each else said


def _counted(counts: Mapping[str, int]) -> str:
    one = {name: name[:-3] + "y" if name.endswith("ies") else name.removesuffix("s") for name in counts}
    parts = [
        f"1 {one[name]}".replace("_", " ") if count == 1 else f"{count:,} {name}".replace("_", " ")
        for name, count in counts.items()
        if count
    ]
    return ", ".join(parts) or "nothing"
