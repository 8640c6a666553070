"""Commands ``penstock flow plan`` and ``penstock flow replay``."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import click

from penstock.errors import BrokerError, PenstockError
from penstock.logs import flowlog
from penstock.settings.table import OVERFLOW_ALIASES
from penstock_simulation import goals as goals_of
from penstock_simulation import texts
from penstock_simulation.candidate import Candidate
from penstock_simulation.goals import Goal, GoalError
from penstock_simulation.grid import Axes, Choice, Trial, capacities_for, choose, that_hold
from penstock_simulation.recording import NOT_SIMULATED, Recording, RecordingError, record
from penstock_simulation.replay import bound, compare, marked
from penstock_simulation.runner import Report, run_trials
from penstock_simulation.trade_off import draw
from penstock_simulation.workload import Workload

MESSAGES_MAX = 5_000_000
"""Most messages of a generated workload."""
OVERLOAD = 0.9
"""Share of the offered messages below which the consumers count as too slow."""
INTERRUPTED = 130
"""Exit code, as shells know it."""
QUEUES_NAMED = 5
TOLD_EVERY_S = 15.0
"""Seconds between two lines of progress if standard error is no terminal."""
SHOWN = ("blocked", "starved", "depth", "depth_messages", "wait_p99", "crossings", "refused")
"""Measures that are printed for a choice."""


class PlanError(PenstockError):
    """Error for an impossible plan, in one sentence."""


@contextmanager
def _sentences() -> Iterator[None]:
    """Turn a user's mistakes into one sentence."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo("penstock: interrupted: nothing is recommended", err=True)
        sys.exit(INTERRUPTED)
    except (GoalError, RecordingError, texts.TextError, BrokerError, ValueError) as error:
        raise PlanError(str(error)) from None
    except OSError as error:
        raise PlanError(f"cannot read '{error.filename}': {error.strerror}") from None


def _time_options(command: Callable[..., None]) -> Callable[..., None]:
    begin = click.option(
        "--from", "begin", metavar="TIME", help="Take the log from TIME on: ISO 8601 (UTC without a zone), or seconds."
    )
    end = click.option("--to", "end", metavar="TIME", help="Take the log up to TIME.")
    return begin(end(command))


@click.command()
@click.argument("logs", nargs=-1, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--queue", metavar="NAME", default="queue", show_default=True, help="Plan the settings of this queue.")
@click.option("--goal", "goal_text", metavar="GOALS", required=True, help="What has to hold; see above.")
@_time_options
@click.option("--arrivals", metavar="KIND:RATE", help="Generate arrivals in place of a log.")
@click.option("--producers", default=1, show_default=True, help="Number of producers that share the arrivals.")
@click.option("--octets", default="1000", show_default=True, help="Size of a generated message.")
@click.option("--services", metavar="KIND:RATE", help="Generate service times; with a log, in place of its own.")
@click.option("--consumers", default=1, show_default=True, help="Number of consumers that share the services.")
@click.option("--seconds", default="60s", show_default=True, help="Length of a generated workload.")
@click.option("--round-trip", default="1ms", show_default=True, help="Network time of a confirm, there and back.")
@click.option("--capacity", metavar="LIST", help="Capacities to try, as 16MiB,64MiB.")
@click.option("--capacity-messages", metavar="LIST", help="Capacities in messages to try.")
@click.option("--stop", metavar="LIST", help="Stop thresholds to try, in percent of the capacity.")
@click.option("--resume", metavar="LIST", help="Resume thresholds to try, in percent of the capacity.")
@click.option("--deadline", metavar="LIST", help="Hold deadlines to try, as 10s,30s; 0 is none.")
@click.option("--window", metavar="LIST", help="Windows of producers to try: messages without a confirm, or credit.")
@click.option("--prefetch", metavar="LIST", help="Prefetches of consumers to try; none is no limit.")
@click.option("--seed", default=1, show_default=True, help="Seed of everything that is random.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Write the trade-off to this SVG file.")
@click.option("--local", is_flag=True, help="Use processes of this machine in place of Spark.")
@click.option("--json", "as_json", is_flag=True, help="Print the choice and all trials as JSON.")
def plan(logs: Sequence[Path], **given: Any) -> None:
    """Recommend settings for a queue that meet GOALS, from a flow log or from generated arrivals.

    Simulates the queue with the broker's own flow control, once for each combination of settings, on Spark's executors,
    and prints the settings that meet the goals with the least memory, as a command to paste.

    GOALS are conditions on measures, separated by commas: blocked<1%,starved=0,depth<=64MiB. Measures are blocked,
    starved, closed, above_stop (shares), wait_p50, wait_p99, cycle_s, return_s (times), depth, mean_depth (bytes),
    depth_messages, refused, crossings (counts).

    For example: penstock flow plan data/flow-log --queue orders --goal 'blocked<1%,depth<=64MiB', or without a log:
    penstock flow plan --arrivals poisson:2000 --services exponential:2500 --goal 'wait_p99<1s,depth<=1MiB'
    """
    with _sentences():
        goals = goals_of.parse(given["goal_text"])
        if not goals:
            raise GoalError("a plan needs at least one goal, such as blocked<1%")
        workload, window = _workload(logs, given)
        axes = _axes(given, goals, window)
        candidates = that_hold(axes.candidates(), workload.largest)
        trials = _run(workload, candidates, given["local"], quiet=given["as_json"])
        choice = choose(trials, goals)
    if given["plot"] is not None:
        title = f"{given['queue']}: {len(trials)} settings, goal {given['goal_text']}"
        given["plot"].write_text(draw(trials, choice, goals, title))
    if given["as_json"]:
        _say_json(choice, trials, workload)
    else:
        _say(choice, goals, workload, given["queue"])
        if given["plot"] is not None:
            click.echo(f"trade-off: {given['plot']}")
    if not choice.meets:
        sys.exit(1)


@click.command()
@click.argument("logs", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--queue", metavar="NAME", required=True, help="Replay what happened to this queue.")
@_time_options
@click.option("--set", "changes", metavar="NAME=VALUE", multiple=True, help="Replay with this setting as well.")
@click.option("--window", type=int, help="Window of the producers, if it is not that of the log; else 1000.")
@click.option("--prefetch", metavar="N", help="Prefetch of the consumers, if it is not that of the log.")
@click.option("--seed", default=1, show_default=True, help="Seed of everything that is random.")
@click.option("--json", "as_json", is_flag=True, help="Print the measures as JSON.")
def replay(logs: Sequence[Path], queue: str, changes: Sequence[str], as_json: bool, **given: Any) -> None:
    """Play a recorded time of a queue back through the broker's own flow control, with other settings beside.

    Prints three columns: what the flow log recorded, what a simulation with the same settings gives (how far to trust
    the third), and what it gives with the settings of --set: capacity-bytes, capacity-messages, stop-percent,
    resume-percent, hold-deadline, max-length, max-length-bytes, overflow. With a length an overflow acts there, and the
    capacity holds publishers.

    For example: penstock flow replay data/flow-log --queue orders --from 2026-11-22T17:00 --set capacity-bytes=128MiB
    """
    with _sentences():
        recording = _recording(logs, queue, given)
        was = recording.candidate()
        if given["window"] is not None:
            was = was.with_changes(window=given["window"])
        if given["prefetch"] is not None:
            was = was.with_changes(prefetch=texts.values(given["prefetch"], texts.whole)[0])
        other = _changed(was, changes)
        comparison = compare(recording, was, other if changes else None, given["seed"])
    if as_json:
        click.echo(json.dumps(comparison.as_dict(), indent=2))
    else:
        for line in comparison.lines():
            click.echo(line)


def _changed(was: Candidate, changes: Sequence[str]) -> Candidate:
    """Return a candidate with changed settings. An overflow acts at the length, if there is one."""
    found = dict(_change(text) for text in changes)
    other = was.with_changes(**found)
    return other.with_changes(holds_at_capacity=other.has_length()) if "overflow" in found else other


def _overflow(text: str) -> str:
    """Return an overflow policy by its name here. Raises `TextError` for a policy that no simulation has."""
    name = OVERFLOW_ALIASES.get(text)
    if name is None or name in NOT_SIMULATED:
        names = ", ".join(sorted({*OVERFLOW_ALIASES.values()} - NOT_SIMULATED))
        raise texts.TextError(f"overflow '{text}' cannot be simulated; it is one of {names}")
    return name


_SETTINGS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "capacity-bytes": ("capacity_bytes", texts.octets),
    "capacity-messages": ("capacity_messages", texts.whole),
    "stop-percent": ("stop_percent", texts.percent),
    "resume-percent": ("resume_percent", texts.percent),
    "hold-deadline": ("hold_deadline_s", texts.seconds),
    "max-length": ("max_length", texts.whole),
    "max-length-bytes": ("max_length_bytes", texts.octets),
    "overflow": ("overflow", _overflow),
}


def _change(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or name not in _SETTINGS:
        raise texts.TextError(f"--set '{text}' is not NAME=VALUE with a name of {', '.join(_SETTINGS)}")
    field, parse = _SETTINGS[name]
    return field, texts.values(value, parse)[0]


def _recording(logs: Sequence[Path], queue: str, given: dict[str, Any]) -> Recording:
    begin = None if given["begin"] is None else flowlog.seconds_of(given["begin"])
    end = None if given["end"] is None else flowlog.seconds_of(given["end"])
    if begin is not None and end is not None and begin >= end:
        raise texts.TextError(f"--from {given['begin']} is not before --to {given['end']}")
    folders = [folder for log in logs for folder in _folders(log)]
    files = [file for folder in folders for file in flowlog.files_between(folder, begin, end)]
    with _reading(files) as report:
        found = record(flowlog.read_queue(queue, files, report), queue, begin, end)
    if not found.messages and not found.samples:
        raise RecordingError(f"the log has no record of queue '{queue}' in that time{_others(folders)}")
    return found


def _folders(log: Path) -> Sequence[Path]:
    """Return the directories of a flow log: the log itself, that in a data directory, or those of a node's shards.

    Raises `RecordingError`.
    """
    if found := flowlog.folders(log):
        return found
    if next(log.rglob("*.parquet"), None) is not None:
        raise RecordingError(f"{log} is compacted: give the flow log itself, or its compressed files")
    raise RecordingError(f"{log} has no flow log: give a directory with flow-*.jsonl or flow-*.jsonl.gz")


def _others(folders: Sequence[Path]) -> str:
    """Name some queues of the newest file, to correct a misspelt name."""
    newest = flowlog.files(folders[-1])[-1]
    queues = set()
    with suppress(EOFError):  # A truncated compressed file.
        queues |= {str(each["queue"]) for each in islice(flowlog.read_file(newest), 10_000) if "queue" in each}
    found = sorted(name for name in queues if not name.startswith("amq."))
    names = ", ".join(f"'{name}'" for name in found[:QUEUES_NAMED])
    return f": it has {names}{' and others' if len(found) > QUEUES_NAMED else ''}" if found else ""


@contextmanager
def _reading(files: Sequence[Path]) -> Iterator[Callable[[Path], None]]:
    """Show on a terminal how much of the logs is read."""
    sizes = {file: file.stat().st_size for file in files}
    if not sys.stderr.isatty():
        yield lambda file: None
        return
    whole = sum(sizes.values())
    label = f"reading {whole / 2**20:,.0f} MiB"
    with click.progressbar(length=whole, label=label, file=sys.stderr) as bar:
        yield lambda file: bar.update(sizes.get(file, 0))


def _workload(logs: Sequence[Path], given: dict[str, Any]) -> tuple[Workload, int | None]:
    """Return the workload to simulate, and the producers' window in a log."""
    if bool(logs) == (given["arrivals"] is not None):
        raise texts.TextError("a plan needs the directory of a flow log, or --arrivals, and not both")
    round_trip_s = texts.seconds(given["round_trip"])
    workers = (texts.worker(given["services"], given["consumers"]),) * given["consumers"] if given["services"] else ()
    if logs:
        recording = _recording(logs, given["queue"], given)
        workload = recording.workload(given["seed"], round_trip_s)
        if workers:
            workload = replace(workload, workers=workers)
        return workload, recording.window
    if not workers:
        raise texts.TextError("a plan with --arrivals needs --services as well, such as exponential:2500")
    source = texts.source(given["arrivals"], texts.octets(given["octets"]), given["producers"])
    seconds = texts.seconds(given["seconds"])
    messages = max(source.rates) * given["producers"] * seconds
    if messages > MESSAGES_MAX:
        raise texts.TextError(f"these arrivals are {messages:,.0f} messages; the most is {MESSAGES_MAX:,}")
    sources = (source,) * given["producers"]
    return Workload(sources, workers, seconds, round_trip_s, given["seed"], given["queue"]), None


def _axes(given: dict[str, Any], goals: Sequence[Goal], window: int | None) -> Axes:
    usual = Axes()

    def tried(name: str, one: Callable[[str], Any], otherwise: Any) -> Any:
        return otherwise if given[name] is None else texts.values(given[name], one)

    windows = usual.window if window is None else tuple(sorted({*usual.window, window}))
    in_messages = tried("capacity_messages", texts.whole, usual.capacity_messages)
    capacities = usual.capacity_bytes if given["capacity_messages"] else capacities_for(goals)
    return Axes(
        capacity_bytes=tried("capacity", texts.octets, capacities),
        capacity_messages=in_messages,
        stop_percent=tried("stop", texts.percent, usual.stop_percent),
        resume_percent=tried("resume", texts.percent, usual.resume_percent),
        hold_deadline_s=tried("deadline", texts.seconds, usual.hold_deadline_s),
        window=windows if given["window"] is None else texts.given(given["window"], texts.whole),
        prefetch=tried("prefetch", texts.whole, usual.prefetch),
    )


def _run(workload: Workload, candidates: list[Candidate], local: bool, quiet: bool) -> list[Trial]:
    with _progress(len(candidates), quiet) as report:
        if local:
            return run_trials(workload, candidates, report)
        from penstock_simulation import spark_runner

        with spark_runner.session() as spark:
            return spark_runner.run_trials(spark, workload, candidates, report)


@contextmanager
def _progress(total: int, quiet: bool) -> Iterator[Report]:
    """Show on standard error how many simulations are done: a bar, or a line with an estimate at each progress."""
    if quiet:
        yield lambda done, of: None
    elif sys.stderr.isatty():
        with click.progressbar(length=total, label=f"{total} simulations", file=sys.stderr) as bar:
            yield lambda done, of: bar.update(done - bar.pos)
    else:
        click.echo(f"{total} simulations", err=True)
        began = told_at = time.monotonic()
        told = 0

        def tell(done: int, of: int) -> None:
            nonlocal told, told_at
            now = time.monotonic()
            if done > told and now - told_at >= TOLD_EVERY_S:
                told, told_at = done, now
                left = timedelta(seconds=round((now - began) * (of - done) / done))
                click.echo(f"{done} of {of} simulations, about {left} left", err=True)

        yield tell


def _say(choice: Choice, goals: Sequence[Goal], workload: Workload, queue: str) -> None:
    outcome, candidate = choice.trial.outcome, choice.trial.candidate
    click.echo(f"{outcome.offered:,} messages in {workload.seconds:,.0f} s")
    if outcome.settled < OVERLOAD * outcome.offered:
        share = outcome.settled / max(1, outcome.offered)
        click.echo(f"the consumers take {share:.0%} of what is published, for which no settings make up")
    if choice.meets:
        click.echo(f"these settings meet the goals, and {choice.others} others that take more memory:")
    else:
        click.echo("no settings of the grid meet the goals; these come nearest:")
    click.echo(f"  {candidate.command(queue)}")
    click.echo(f"  {candidate.clients()}")
    for measure in SHOWN:
        value = goals_of.shown(measure, getattr(outcome, measure))
        click.echo(marked(f"  {measure:<15} {value}", workload.blocked))
    for goal in goals:
        if not goal.is_met(outcome):
            nearest = goals_of.shown(goal.measure, goal.value(outcome))
            click.echo(f"missed: {goal.text}; the nearest possible one is {goal.measure}<={nearest}")
    if bound(workload.blocked):
        click.echo(bound(workload.blocked))


def _say_json(choice: Choice, trials: Sequence[Trial], workload: Workload) -> None:
    def plain(trial: Trial) -> dict[str, Any]:
        return {"settings": trial.candidate.as_dict(), "outcome": trial.outcome.as_dict()}

    found = {
        "meets": choice.meets,
        "bound": bound(workload.blocked) != "",
        "choice": plain(choice.trial),
        "trials": [plain(trial) for trial in trials],
    }
    click.echo(json.dumps(found, indent=2))
