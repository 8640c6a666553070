"""From single measurements to the table: minima over the repetitions, ratios, goals met or not."""

import os
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.brokers import COMPILED, INTERPRETED, RABBITMQ, SQLITE
from bench.loadgen import Result
from bench.peers10 import ARTEMIS, ARTEMIS_NIO, QPIDD
from bench.relay import RELAY
from bench.scenarios import Scenario

PEERS = {RABBITMQ: "RabbitMQ", QPIDD: "qpidd", ARTEMIS: "Artemis", ARTEMIS_NIO: "Artemis NIO"}
TITLES = {COMPILED: "comp.", INTERPRETED: "int.", SQLITE: "SQLite", **PEERS, RELAY: "relay"}


@dataclass(frozen=True)
class Measurement:
    """One broker under one load, once.

    Latencies in microseconds from publishing to delivery, and to confirmation where there are any.
    """

    scenario: str
    broker: str
    repetition: int
    microseconds: float  # of the broker's processor time per message
    rate: float  # messages per second
    generator: float  # microseconds of the generator's processor time per message
    others: float  # cores that neither broker nor generator used, but somebody else
    p50: float
    p99: float
    longest: float
    confirm_p50: float | None = None
    confirm_p99: float | None = None
    resident: float | None = None  # MiB of the broker's memory after the load
    server: float | None = None  # microseconds of the database server's processor time for a message

    @classmethod
    def of(
        cls,
        scenario: str,
        broker: str,
        repetition: int,
        result: Result,
        others: float,
        resident: float,
        server_cpu: float | None = None,
    ) -> "Measurement":
        """Take from the generator's result what the report needs; `server_cpu` is of the whole load, in seconds."""
        messages, latency = max(1, result["messages"]), result["latency_us"]
        confirm = result.get("confirm_us", {})
        return cls(
            scenario,
            broker,
            repetition,
            result["broker_cpu"] / messages * 1e6,
            result["rate"],
            result["own_cpu"] / messages * 1e6,
            others,
            latency["p50"],
            latency["p99"],
            latency["max"],
            confirm.get("p50"),
            confirm.get("p99"),
            resident,
            None if server_cpu is None else server_cpu / max(1, result["consumed"]) * 1e6,
        )


@dataclass(frozen=True)
class Best:
    """The least disturbed figures of one broker in one scenario, over all repetitions."""

    microseconds: float
    rate: float
    generator: float
    p50: float
    p99: float
    longest: float
    confirm_p50: float | None
    confirm_p99: float | None
    resident: float | None
    server: float | None = None

    @classmethod
    def of(cls, measurements: Iterable[Measurement]) -> "Best | None":
        """Return the minimum of every time, the maximum of rate and memory; None without measurements."""
        found = list(measurements)
        if not found:
            return None
        return cls(
            min(m.microseconds for m in found),
            max(m.rate for m in found),
            min(m.generator for m in found),
            min(m.p50 for m in found),
            min(m.p99 for m in found),
            min(m.longest for m in found),
            min((m.confirm_p50 for m in found if m.confirm_p50 is not None), default=None),
            min((m.confirm_p99 for m in found if m.confirm_p99 is not None), default=None),
            max((m.resident for m in found if m.resident is not None), default=None),
            min((m.server for m in found if m.server is not None), default=None),
        )


@dataclass(frozen=True)
class Row:
    """One scenario: the best of each broker, the ratios, and what became of the goals."""

    scenario: Scenario
    best: dict[str, Best]
    goals: tuple[tuple[str, bool | None], ...]  # None: not measured, because one side is missing

    @classmethod
    def of(cls, scenario: Scenario, measurements: Iterable[Measurement]) -> "Row":
        """Judge one scenario."""
        mine = [m for m in measurements if m.scenario == scenario.key]
        best = {name: found for name in TITLES if (found := Best.of(m for m in mine if m.broker == name))}
        return cls.judged(scenario, best)

    @classmethod
    def judged(cls, scenario: Scenario, best: dict[str, Best]) -> "Row":
        """Judge the best figures of each broker."""
        return cls(scenario, best, tuple(_goals(scenario, best)))

    def ratio(self, name: str) -> float | None:
        """Return the best peer's CPU time per message over this broker's; None when one is missing."""
        return _ratio(self.best, name)

    def as_data(self) -> dict[str, object]:
        """Return the row as plain data for the JSON file."""
        return {
            "scenario": asdict(self.scenario),
            "best": {name: asdict(best) for name, best in self.best.items()},
            "ratios": {name: self.ratio(name) for name in (COMPILED, INTERPRETED)},
            "beside_relay": beside_relay(self.best),
            "goals": [{"goal": text, "met": met} for text, met in self.goals],
        }


def _best_peer(best: dict[str, Best]) -> Best | None:
    """Return the figures of the peer with the least CPU time per message."""
    return min((best[name] for name in PEERS if name in best), key=lambda found: found.microseconds, default=None)


def _ratio(best: dict[str, Best], name: str) -> float | None:
    ours, peer = best.get(name), _best_peer(best)
    return peer.microseconds / ours.microseconds if ours and peer and ours.microseconds else None


def beside_relay(best: dict[str, Best]) -> float | None:
    """Return the compiled broker's CPU time per message over that of the bare relay; None when one is missing."""
    ours, relay = best.get(COMPILED), best.get(RELAY)
    return ours.microseconds / relay.microseconds if ours and relay and relay.microseconds else None


def _goals(scenario: Scenario, best: dict[str, Best]) -> Iterable[tuple[str, bool | None]]:
    for name, least in ((COMPILED, scenario.compiled), (INTERPRETED, scenario.interpreted)):
        if least is not None:
            ratio = _ratio(best, name)
            yield f"{name} {least:g}x", None if ratio is None else ratio >= least
    for name, most in ((COMPILED, scenario.at_most), (INTERPRETED, scenario.at_most_interpreted)):
        if most is not None:
            found = best.get(name)
            yield f"{name} <= {most:g} us", None if found is None else found.microseconds <= most
    ours, peer = best.get(COMPILED), best.get(RABBITMQ)
    if scenario.beside_relay is not None:
        times = beside_relay(best)
        yield (
            f"compiled <= {scenario.beside_relay:g}x the bare relay",
            (None if times is None else times <= scenario.beside_relay),
        )
    if scenario.rate is not None:
        yield f"{scenario.rate:,.0f}/s compiled", None if ours is None else ours.rate >= scenario.rate
    if scenario.latency:
        yield "p99 compiled <= RabbitMQ's", None if not ours or not peer else ours.p99 <= peer.p99
    if scenario.confirmation:
        met = None
        if ours and peer and ours.confirm_p99 is not None and peer.confirm_p99 is not None:
            met = ours.confirm_p99 <= peer.confirm_p99
        yield "p99 of confirmations compiled <= RabbitMQ's", met


def _cell(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _aligned(lines: list[list[str]]) -> list[str]:
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return [
        "  ".join([line[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(line[1:], widths[1:], strict=True))])
        for line in lines
    ]


def _goal_words(row: Row) -> list[str]:
    words = {True: "met", False: "NOT MET", None: "not measured"}
    return [f"{text}: {words[met]}" for text, met in row.goals]


def table(rows: list[Row]) -> str:
    """Return the report as text: CPU per message and rates, then the goals, then latencies."""
    ours = (COMPILED, INTERPRETED)
    titles = {name: text for name, text in TITLES.items() if name in ours or any(name in row.best for row in rows)}
    short = list(titles.values())
    lines = [["scenario", "compiled", "interpreted", *short[2:], "x comp.", "x int.", *(f"{each}/s" for each in short)]]
    for row in rows:
        bests = [row.best.get(name) for name in titles]
        times = [_cell(best.microseconds if best else None, ".2f") for best in bests]
        ratios = [_cell(row.ratio(name), ".1f") for name in ours]
        rates = [_cell(best.rate if best else None, ",.0f") for best in bests]
        lines.append([row.scenario.title, *times, *ratios, *rates])
    text = [
        "CPU microseconds of the broker per message (minimum), the best peer's over ours, messages per second (best)"
    ]
    text += _aligned(lines)
    text += ["", "Goals"]
    text += _aligned([[row.scenario.title, "; ".join(_goal_words(row))] for row in rows if row.goals] or [["none"]])
    text += ["", *_relays(rows), *_latencies(rows), *_confirmations(rows)]
    return "\n".join(text)


def _relays(rows: list[Row]) -> list[str]:
    lines = [["scenario", "compiled", "relay", "times"]]
    for row in rows:
        times = beside_relay(row.best)
        if times is not None:
            figures = (row.best[COMPILED].microseconds, row.best[RELAY].microseconds, times)
            lines.append([row.scenario.title, *(_cell(figure, ".2f") for figure in figures)])
    if len(lines) == 1:
        return []
    return ["CPU microseconds per message beside a bare relay in C, which only polls, reads and writes",
            *_aligned(lines), ""]  # fmt: skip


def _latencies(rows: list[Row]) -> list[str]:
    lines = [["scenario", "broker", "p50", "p99", "max"]]
    for row in rows:
        if row.scenario.latency:
            lines += [[row.scenario.title, name, *(f"{v:,.0f}" for v in (b.p50, b.p99, b.longest))]
                      for name, b in row.best.items()]  # fmt: skip
    if len(lines) == 1:
        return []
    return ["Microseconds from publishing to delivery (minimum over the repetitions)", *_aligned(lines), ""]


def _confirmations(rows: list[Row]) -> list[str]:
    lines = [["scenario", "broker", "p50", "p99", "MiB", "server us"]]
    for row in rows:
        for name, best in row.best.items():
            if best.confirm_p99 is not None:
                figures = (best.confirm_p50, best.confirm_p99, best.resident)
                cells = [_cell(figure, ",.0f") for figure in figures]
                lines.append([row.scenario.title, name, *cells, _cell(best.server, ".2f")])
    if len(lines) == 1:
        return []
    head = (
        "Microseconds from publishing to confirmation (minimum over the repetitions), resident memory (most), and "
        "processor time of a database server per message"
    )
    return [head, *_aligned(lines), ""]


def _file_system(folder: Path) -> str:
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    there = [fields for fields in mounts if folder.resolve().is_relative_to(fields[1])]
    return max(there, key=lambda fields: len(fields[1]))[2] if there else "?"


def conditions(folder: Path) -> dict[str, object]:
    """Return what the figures depend on and this program can see; the folder is where the brokers write."""
    cpuinfo = Path("/proc/cpuinfo").read_text()
    model = next((line.partition(":")[2].strip() for line in cpuinfo.splitlines() if "model name" in line), "?")
    memory = int(Path("/proc/meminfo").read_text().split()[1]) / 2**20
    return {
        "processor": model,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "file_system": _file_system(folder),
        "load_before": os.getloadavg(),
    }
