"""Compare Penstock with its peers: processor time per message under the same load, in turns, in one run.

Every broker runs with its defaults on a port of its own for the whole comparison, and only one of them is under load
at a time. In each repetition each scenario is measured for every broker, beginning with another one each time. The
figure of merit is the CPU time of the broker's whole process tree per delivered message, the minimum over the
repetitions: whatever else runs on the machine only adds to it, for every broker alike.
"""

import argparse
import datetime
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from bench import loadgen, page, peers10, postgres, processes, relay, report, tls
from bench.brokers import SQLITE, STARTERS, Broker, Starters, start_all
from bench.loadgen import AMQP1, AMQPS, POSTGRESQL
from bench.report import Measurement, Row
from bench.scenarios import SCENARIOS_OF, Scenario
from penstock.client.bench.target import cpu_seconds

OUTPUT = Path(__file__).resolve().parent / "output" / "bench.json"


@dataclass(frozen=True)
class Effort:
    """How long and how often is measured; times in seconds."""

    repetitions: int
    warm_up: float
    window: float


NORMAL, QUICK = Effort(3, 1.0, 3.0), Effort(1, 0.3, 1.0)


def say(text: str) -> None:
    """Print at once, also into a pipe."""
    print(text, flush=True)


def measure(broker: Broker, scenario: Scenario, repetition: int, effort: Effort, protocol: str) -> Measurement:
    """Put one broker under one load."""
    pids, server = broker.pids(), broker.server()
    mine = [*processes.tree(os.getpid()), *server]
    options = (*broker.options, *scenario.options, "--warm-up", str(effort.warm_up), "--seconds", str(effort.window))
    everything = os.sched_getaffinity(0)
    first, *rest = sorted(everything)
    if scenario.one_core:
        processes.pin(broker.process.pid, {first})
    before, start, own = processes.busy_seconds(), time.monotonic(), _cpu_of(mine) + _cpu_of_children()
    of_server = _cpu_of(server)
    try:
        cores = set(rest) if scenario.one_core else None
        result = loadgen.run(broker.port, *options, pids=pids, cores=cores, protocol=protocol)
    finally:
        if scenario.one_core:
            processes.pin(broker.process.pid, everything)
    of_server = _cpu_of(server) - of_server
    spent = _cpu_of(mine) + _cpu_of_children() - own
    others = max(0.0, processes.busy_seconds() - before - spent) / (time.monotonic() - start)
    resident = processes.resident_mib(broker.pids())
    more = of_server if server else None
    return Measurement.of(scenario.key, broker.name, repetition, result, others, resident, more)


def _cpu_of(pids: list[int]) -> float:
    """Return the CPU seconds of those of these processes that still run; helpers of a broker may have ended."""
    return sum(cpu_seconds(pid) or 0.0 for pid in pids)


def _cpu_of_children() -> float:
    times = os.times()
    return times.children_user + times.children_system


def possible(scenarios: list[Scenario]) -> list[Scenario]:
    """Leave out what this machine cannot measure."""
    if len(os.sched_getaffinity(0)) > 1:
        return scenarios
    for scenario in scenarios:
        if scenario.one_core:
            say(f"Without {scenario.key}: it gives the broker one core and the generator another; there is only one.")
    return [scenario for scenario in scenarios if not scenario.one_core]


def takes_part(name: str, scenario: Scenario) -> bool:
    """Tell whether a broker takes part in a scenario."""
    return peers10.takes_part(name, scenario.stored) if name != relay.RELAY else relay.is_beside(name, scenario)


def measurements(
    brokers: dict[str, Broker], scenarios: list[Scenario], effort: Effort, protocol: str
) -> Iterator[Measurement]:
    """Measure everything, in turns, with a line of progress for each; a broker that fails takes no further part."""
    names = list(brokers)
    for repetition in range(effort.repetitions):
        for scenario in scenarios:
            turn = repetition % max(1, len(names))
            for name in names[turn:] + names[:turn]:
                if not takes_part(name, scenario):
                    continue
                head = f"[{repetition + 1}/{effort.repetitions}] {scenario.title}, {name}: "
                try:
                    one = measure(brokers[name], scenario, repetition, effort, protocol)
                except (loadgen.LoadError, OSError) as failure:
                    say(f"{head}FAILED: {failure}")
                    if brokers[name].process.poll() is not None:
                        say(f"{name} has ended; it takes no further part.")
                        names.remove(name)
                    continue
                say(f"{head}{one.microseconds:.2f} us, {one.rate:,.0f}/s, p99 {one.p99:,.0f} us"
                    f" (generator {one.generator:.2f} us, others {one.others:.1f} cores)")  # fmt: skip
                yield one


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="bench.run", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--protocol", nargs="+", choices=list(SCENARIOS_OF), default=list(SCENARIOS_OF),
                        help="by default each: %(choices)s")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="one repetition, windows of a second")
    for protocol, scenarios in SCENARIOS_OF.items():
        keys = ", ".join(scenario.key for scenario in scenarios)
        parser.add_argument_group(f"scenarios of {protocol}", keys)
    parser.add_argument("--only", nargs="+", metavar="SCENARIO", help="by default all")
    names = sorted({*STARTERS, SQLITE, relay.RELAY, *peers10.NAMES})
    parser.add_argument("--brokers", nargs="+", choices=names, metavar="BROKER",
                        help="by default all of the protocol: %(choices)s")  # fmt: skip
    parser.add_argument("--repeat", type=int, help=f"repetitions (default {NORMAL.repetitions})")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="the JSON file (default %(default)s)")
    parser.add_argument(
        "--record", action="store_true", help=f"also in {page.RECORD.name}, for docs/inside/benchmarks.md"
    )
    wanted = parser.parse_args(words)
    there = {scenario.key for protocol in wanted.protocol for scenario in SCENARIOS_OF[protocol]}
    wanted.only = wanted.only or sorted(there)
    if unknown := sorted(set(wanted.only) - there):
        parser.error(f"no scenario of {' or '.join(wanted.protocol)}: {', '.join(unknown)}")
    if wanted.repeat is not None and wanted.repeat < 1:
        parser.error(f"--repeat {wanted.repeat}: at least 1 is wanted")
    if wanted.record and set(wanted.only) != there:
        parser.error("--record keeps all scenarios of a protocol: leave out --only")
    if wanted.output.is_dir():
        parser.error(f"--output {wanted.output}: this is a directory")
    return wanted


def started(
    wanted: argparse.Namespace, protocol: str, scenarios: list[Scenario], scratch: Path, stack: ExitStack
) -> dict[str, Broker]:
    """Start those brokers of the protocol that are wanted and can be. Raises LoadError if none of them can be."""
    if protocol != AMQP1:
        starters: Starters = STARTERS
        if protocol == AMQPS:
            starters = tls.starters(scratch, stack)
        elif protocol == POSTGRESQL:
            starters = postgres.starters(wanted.output.parent, stack)
        if protocol in relay.PROTOCOLS and any(relay.is_beside(relay.RELAY, scenario) for scenario in scenarios):
            starters = {**starters, relay.RELAY: relay.start}
        names = [name for name in wanted.brokers or starters if name in starters]
        return start_all(names, scratch, stack, say, starters)
    kinds = {scenario.stored for scenario in scenarios}
    every = [name for name in peers10.NAMES if any(peers10.takes_part(name, stored) for stored in kinds)]
    names = [name for name in wanted.brokers or every if name in peers10.NAMES]
    found = {name: peers10.start(name, scratch, stack, say, None) for name in names}
    return {name: broker for name, broker in found.items() if broker is not None}


def compared(wanted: argparse.Namespace, protocol: str, scenarios: list[Scenario]) -> dict[str, object] | None:
    """Compare the brokers over one protocol, and print the rows; None if nothing could be measured.

    Raises LoadError without what the load needs.
    """
    effort = QUICK if wanted.quick else NORMAL
    effort = Effort(wanted.repeat or effort.repetitions, effort.warm_up, effort.window)
    # The brokers' directories stand beside the results: temporary ones are in memory on some machines.
    surroundings = {"date": datetime.datetime.now(datetime.UTC).date().isoformat()} | report.conditions(
        wanted.output.parent
    )
    loadgen.build(protocol)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="scratch-", dir=wanted.output.parent)))
        brokers = started(wanted, protocol, scenarios, scratch, stack)
        titles = {name: broker.title for name, broker in brokers.items()}
        found = list(measurements(brokers, scenarios, effort, protocol))
    if not found:
        say("Nothing was measured.")
        return None
    others = sorted(one.others for one in found)
    surroundings |= {"brokers": titles, "load_after": os.getloadavg(), "effort": asdict(effort),
                     "others": [round(others[len(others) // 2], 1), round(others[-1], 1)]}  # fmt: skip
    rows = [Row.of(scenario, found) for scenario in scenarios]
    say(f"\n{protocol}: {report.table(rows)}\n{_describe(surroundings, found)}")
    wanted_runs = [name for name in titles for scenario in scenarios if takes_part(name, scenario)]
    complete = len(found) == effort.repetitions * len(wanted_runs)
    return {"conditions": surroundings, "complete": complete, "rows": [row.as_data() for row in rows],
            "all": [asdict(one) for one in found]}  # fmt: skip


def main() -> int:
    """Run the comparisons; 1 if one could not be measured or a load failed."""
    wanted = arguments()
    # The brokers run in sessions of their own: whoever ends this program must not leave them behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    wanted.output.parent.mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[str, object] | None] = {}
    for protocol in wanted.protocol:
        if scenarios := possible([each for each in SCENARIOS_OF[protocol] if each.key in wanted.only]):
            try:
                found[protocol] = compared(wanted, protocol, scenarios)
            except loadgen.LoadError as reason:
                say(f"Without {protocol}: {reason}")
                found[protocol] = None
    done = {protocol: data for protocol, data in found.items() if data}
    wanted.output.write_text(json.dumps(done, indent=1) + "\n")
    say(f"Written to {wanted.output}.")
    if wanted.record:
        page.record(done)
    return 0 if done and all(data and data["complete"] for data in found.values()) else 1


def _describe(about: dict[str, object], found: list[Measurement]) -> str:
    titles, others = about["brokers"], about["others"]
    assert isinstance(titles, dict)
    assert isinstance(others, list)
    lines = [
        f"Conditions: {about['processor']}, {about['cores']} cores, {about['memory_gib']} GiB, {about['system']}, "
        f"CPython {about['python']}; everything on loopback, at most 20,000 in flight, transient messages but where "
        f"it says persistent, stores on {about['file_system']}.",
        f"Load average before {about['load_before']}, after {about['load_after']}; other processes used "
        f"{others[0]} cores in the middle, {others[1]} at most. "
        f"The generator took at most {max(one.generator * one.rate for one in found) / 1e6:.2f} of a core.",
    ]
    return "\n".join([*lines, *(f"{name}: {title}" for name, title in titles.items())])


if __name__ == "__main__":
    sys.exit(main())
