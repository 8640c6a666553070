"""`penstock bench`: loads and experiments for any AMQP broker by its URL."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from penstock.cli.common import interruptible, say, say_json
from penstock.cli.grammar import CommandGroup
from penstock.cli.parameters import JSON, PATH, parameter
from penstock.cli.tables import table
from penstock.cli.target import URL, tls_files
from penstock.describe.conditions import cell
from penstock.operations.command import Field
from penstock.settings.kind import Number, bytes_from, seconds_from, whole

if TYPE_CHECKING:
    from penstock.client.bench.loads import Run
    from penstock.client.bench.parties import Load
    from penstock.client.bench.target import Target

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
Rows = list[dict[str, object]]
LONGEST_S = 24 * 3600.0
"""Seconds of the longest run."""
TLS_NAMES = {"cacert": "cacertfile", "client_cert": "certfile", "client_key": "keyfile"}


@click.group(cls=CommandGroup, invoke_without_command=True)
@click.option("--compare", metavar="A B", nargs=2, type=PATH, help="Compare two results that --json has printed.")
@parameter(JSON)
@click.pass_context
def bench(context: click.Context, compare: tuple[Path, Path] | None, as_json: bool) -> None:
    """Measure a broker: rates, latency, flow control, and the behaviour of clients during a hold.

    Any broker that speaks AMQP 0-9-1 or 1.0 can be measured. The load is this package's client; `penstock` need not be
    the broker. A run declares a queue of its own and deletes it at the end. For example: penstock bench latency --rate
    5000 --json > a.json, and later penstock bench --compare a.json b.json
    """
    if compare is None:
        if context.invoked_subcommand is None:
            click.echo(context.get_help())
        return
    from penstock.client.bench import result

    rows = result.compare(*(result.read(path) for path in compare))
    if as_json:
        say_json(rows)
    else:
        show(rows)
    context.exit()


def shared(command: Decorated) -> Decorated:
    """Add the options of every run to a command, which gets them as `session`."""

    @functools.wraps(command)
    def bundled(yes_really: bool, plot: Path | None, quiet: bool, as_json: bool, url: str, **given: Any) -> None:
        with interruptible():
            command(session=Session(url, yes_really, quiet, as_json, plot), **given)

    found: Any = bundled
    for field in (
        Field("yes_really", "Load a broker that is on another machine.", bool),
        Field("plot", "Draw the course as SVG.", Path, metavar="FILE"),
        Field("quiet", "Print no progress on standard error.", bool),
        JSON,
    ):
        found = parameter(field)(found)
    return URL(found)  # type: ignore[no-any-return]


_LOAD: Final = (
    Field("sizes", "Octets of a body; may be repeated, a run for each. Default: 100.", bytes_from(8, 1 << 24),
          option="--size", metavar="N", many=True),
    Field("window", "Most unconfirmed messages of a sender.", whole(1, 100_000), 1000),
    Field("prefetch", "Messages that a receiver is sent in advance.", whole(1, 65_535), 1000),
    Field("senders", "Processes that send.", whole(1, 64), 1),
    Field("receivers", "Processes that receive.", whole(1, 64), 1),
    Field("count", "Stop after this number of messages.", whole(1)),
    Field("warm_up", "Seconds before the measurement.", seconds_from(0, 600), 1.0, metavar="S"),
    Field("durable", "Send durable messages to a durable queue.", bool),
    Field("queue", "Use this queue, which is there and empty, instead of one of the run's own.", metavar="NAME",
          default=""),
)  # fmt: skip


def loaded(command: Decorated) -> Decorated:
    """Add the options of a load to a command, which gets them as `loads`, one for each size of a body."""

    @functools.wraps(command)
    def bundled(sizes: tuple[int, ...], count: int | None, seconds: float, **given: Any) -> None:
        from penstock.client.bench.parties import Load

        names = ("warm_up", "senders", "receivers", "window", "prefetch", "durable")
        fields = {"rate": given.pop("rate", 0.0), **{name: given.pop(name) for name in names}}
        fields |= {"seconds": seconds, "interval": _interval(seconds), "most": count or 0}
        command(loads=[Load(size=size, **fields) for size in sizes or (100,)], **given)

    found: Any = bundled
    for field in reversed(_LOAD):
        found = parameter(field)(found)
    return found  # type: ignore[no-any-return]


def duration(default: float) -> Callable[..., Any]:
    """Return the option for the length of a run."""
    text = "Length of the measurement: 10, 90s, 5 min, 2 h."
    return parameter(Field("seconds", text, seconds_from(0.1, LONGEST_S), default, option="--for", metavar="S"))


def rate(most: float, default: float) -> Callable[..., Any]:
    """Return the option for the rate of a run."""
    return parameter(Field("rate", "Messages a second that are due.", Number("", 0.1, most, whole=False), default))


@dataclass
class Session:
    """One use of the command: its broker, its progress, and the printing of its result."""

    url: str
    yes_really: bool
    quiet: bool
    as_json: bool
    plot: Path | None

    @functools.cached_property
    def target(self) -> Target:
        """Ask the broker for its description.

        Raises BenchError for a broker on another machine without --yes-really.
        """
        from penstock.client.bench.target import BenchError, Target, strangers, with_options

        url = with_options(self.url, **{TLS_NAMES[name]: path for name, path in tls_files().items()})
        hosts = strangers(url)
        if hosts and not self.yes_really:
            raise BenchError(
                f"{hosts[0]} is another machine, and a bench loads it fully: --yes-really does it all the same"
            )
        return Target.ask(url)

    def say(self, text: str) -> None:
        """Print a line of progress on standard error."""
        if not self.quiet:
            say(f"penstock: {text}", err=True)

    def finish(self, bench: str, rows: Rows, courses: dict[str, Any], shown: Rows | None = None) -> None:
        """Print and draw the result; texts have the rows `shown`, if there are any."""
        from penstock.client.bench import result

        found = result.result(bench, self.target, rows, courses)
        if self.plot is not None:
            title = f"penstock bench {bench}: {self.target.product} {self.target.version}"
            result.plot(self.plot, title, courses)
        if self.as_json:
            say_json(found)
            return
        say(f"{self.target.product} {self.target.version}, {self.target.protocol}")
        show(rows if shown is None else shown)

    def run(self, load: Load, queue: str, pid: int | None = None) -> Run:
        """Run a load."""
        from penstock.client.bench.loads import play
        from penstock.client.bench.target import resident_mib

        target = self.target
        self.say(f"{load.words()}, for {load.warm_up + load.seconds:g} s")
        with target.queue(queue, load.durable) as name:
            return play(target, name, load, self.say, lambda: None if pid is None else resident_mib(pid))


def show(rows: list[dict[str, object]]) -> None:
    """Print rows as a table; a missing figure is a dash."""
    from penstock.client.bench.result import columns

    heads = columns(rows)
    table(tuple(heads), [tuple(_figure(row.get(head)) for head in heads) for row in rows])


def _figure(value: object) -> str:
    return f"{value:,.2f}" if isinstance(value, float) else cell(value)


@bench.command()
@duration(10.0)
@loaded
@shared
def throughput(session: Session, loads: list[Load], queue: str) -> None:
    """Send as fast as the broker confirms, and receive as fast as it delivers.

    `transit` is the time from the sending to the receiver: mostly waiting in queues here, since the queue fills up when
    receivers are slower. `sender us` and `receiver us` are the processor time of the bench for a message: the bench is
    the limit where these are near 1,000,000 divided by the rate. For example: penstock bench throughput --size 100
    --size 10000 --for 5
    """
    from penstock.client.bench import loads as of

    rows: Rows = []
    courses: dict[str, Any] = {}
    for load in loads:
        run = session.run(load, queue)
        rows.append(of.throughput(run))
        size = f" {load.size:,} B" if len(loads) > 1 else ""
        courses |= {f"{name}{size}": line for name, line in of.courses(run).items()}
    session.finish("throughput", rows, courses)


@bench.command()
@rate(1e6, 1000.0)
@duration(10.0)
@loaded
@shared
def latency(session: Session, loads: list[Load], queue: str) -> None:
    """Send each message at its own time, and measure from then to its confirm and to its receiver.

    The load is open: a message is due at its time whatever became of those before it, and its latency counts from the
    time at which it was due. So a broker that stops for a second has a thousand late messages at 1,000/s, not one. The
    row `of the bench` says how late the bench itself was with messages that the broker did not hold: latencies below
    it mean nothing. For example: penstock bench latency --rate 5000 --for 30 --plot latency.svg
    """
    from penstock.client.bench import loads as of

    rows: Rows = []
    courses: dict[str, Any] = {}
    for load in loads:
        run = session.run(load, queue)
        rows += of.latency(run)
        courses |= of.courses(run)
    session.finish("latency", rows, courses)


@bench.command()
@rate(1e5, 500.0)
@parameter(Field("pid", "The broker's process on this machine, for its memory.", whole(1)))
@duration(3600.0)
@loaded
@shared
def soak(session: Session, loads: list[Load], queue: str, pid: int | None) -> None:
    """Send at a rate for hours, and report how latency and the broker's memory drift.

    The table compares the first tenth of the run with the last one. Latency is measured as by `penstock bench latency`.
    For example: penstock bench soak --for 8h --rate 200 --pid "$(pgrep -f 'penstock serve')" --json > soak.json
    """
    from penstock.client.bench import loads as of
    from penstock.client.bench.target import BenchError

    if len(loads) > 1:
        raise BenchError("`penstock bench soak` has one --size")
    run = session.run(loads[0], queue, pid)
    session.finish("soak", of.soak(run), {**of.courses(run), "broker MiB": run.resident})


TIMEOUT: Final = "Time-out of a send, where the library has one; default: a third of the hold."
SPOKEN: Final = "Protocol of publishers; both: in turns."


def _interval(seconds: float) -> float:
    """Return the seconds of an interval: at most 360 intervals, or a tenth of a short run."""
    return min(1.0, seconds / 10) if seconds <= 360 else seconds / 360


@bench.command()
@parameter(Field("hold", "Length of the hold.", seconds_from(1, 60), 10.0, metavar="S"))
@parameter(Field("timeout", TIMEOUT, seconds_from(0.5, 60), metavar="S"))
@shared
def survive(session: Session, hold: float, timeout: float | None) -> None:
    """Hold every client library that is installed here, and report the behaviour of each.

    Each sends numbers one by one to a queue of four messages without consumers. Then the queue is emptied, and each
    sends once more. `failed but came` counts messages that were reported as failed and arrived all the same; `lost`
    those that were confirmed and did not arrive. A broker other than Penstock refuses at the bound instead. For
    example: penstock bench survive --hold 60
    """
    from penstock.client.bench import survive as experiment
    from penstock.client.bench.target import BenchError

    if session.plot is not None:
        raise BenchError("`penstock bench survive` has no course to plot")
    rows = experiment.survive(session.target, hold, timeout or hold / 3, session.say)
    session.finish("survive", rows, {})


PROTOCOLS = {"auto": ("auto",), "amqp091": ("amqp091",), "amqp10": ("amqp10",), "both": ("amqp091", "amqp10")}
"""Protocols of publishers in turn, by the words of --protocol."""
EXPERIMENTS = (
    "overshoot", "standstill", "starvation", "resume", "equal", "greedy", "isolation", "throughput", "order", "crowd",
)  # fmt: skip


@bench.command()
@parameter(Field("only", ", ".join(EXPERIMENTS), metavar="EXPERIMENT", choices=EXPERIMENTS, many=True))
@parameter(Field("full", "Run more cells, with 64 publishers as well: about five minutes.", bool))
@parameter(Field("protocol", SPOKEN, default="amqp091", choices=tuple(PROTOCOLS)))
@parameter(Field("pid", "The broker's process on this machine, for its memory and CPU.", whole(1)))
@duration(3.0)
@shared
def flow(session: Session, only: tuple[str, ...], full: bool, protocol: str, pid: int | None, seconds: float) -> None:
    """Judge a broker's flow control: a scorecard with goals.

    Publishers meet full queues of 1 MiB and 64 KiB. The table has the worst cell of each experiment, `--json` all of
    them. `--plot` draws the depth of the 64 KiB in `equal` and `greedy`. `--for` is the length of one measurement.
    `crowd` needs --pid. Exit code 1: a goal was missed. For example: penstock bench flow --only overshoot --only equal
    """
    from penstock.client.bench.flow import Card, figures, met, scorecard
    from penstock.client.bench.flow_parties import Place
    from penstock.client.bench.target import BenchError

    if session.plot is not None and only and not {"starvation", "equal", "greedy", "order"}.intersection(only):
        raise BenchError("a plot of flow control needs one of the experiments starvation, equal and greedy")
    session.target.protocol = protocol
    card = Card(Place(session.target, PROTOCOLS[protocol]), session.say, seconds, full, pid)
    cells = list(card.cells(set(only or EXPERIMENTS)))
    if not cells:
        raise BenchError("no experiment could be run: some are for Penstock only, and crowd needs --pid")
    session.finish("flow", figures(cells), card.courses, scorecard(cells))
    if not all(met([each]) for each in cells):
        sys.exit(1)
