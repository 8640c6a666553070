"""Processor time of a message and of a login behind the parent, by TLS too, and the speed of two tenants."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from bench import loadgen, tls
from bench.cluster.figures import Figure
from bench.cluster.nodes import ALONE, SHARDED, VHOSTS, Client, Served, spent, start
from bench.run import Effort
from bench.scenarios import PERSISTENT

MESSAGE_MOST, LOGIN_MOST, TENANTS_LEAST, RELAY_MOST = 1.05, 2.2, 1.8, 1.5
NAMED_MOST = 1.05
"""Most processor time of a client whose server name tells its shard, to that of TLS in a broker alone."""
LOADS = {
    "a message of 100 B": ("--ack", "100"),
    "a message of 1 KiB": ("--ack", "100", "--sizes", "1024"),
    "a durable message of 100 B": (*PERSISTENT, "--sizes", "100", "--confirms", "1000"),
    "a durable message of 1 KiB": (*PERSISTENT, "--confirms", "1000"),
}
BY_TLS = ("--ack", "100", "--sizes", "1024")
LOGINS = 400
NAME = "other.example.org"
"""Server name whose clients go to the shard of the second virtual host."""
TLS_SETTINGS = """\
listen-tls = ["127.0.0.1:0"]

[tls]
certificate = "server.pem"
key = "server-key.pem"
minimum-version = "1.3"
"""
NAMED = f"""
[tls.names."{NAME}"]
certificate = "server.pem"
key = "server-key.pem"
"""


def message_us(served: Served, options: tuple[str, ...], effort: Effort, port: int = 0, vhost: str = "/") -> float:
    """Return the processor time of all processes for a message, in microseconds."""
    window = ("--warm-up", str(effort.warm_up), "--seconds", str(effort.window), "--vhost", vhost)
    result = loadgen.run(port or served.port, *options, *window, pids=served.broker.pids())
    return float(result["broker_cpu"]) / max(1, int(result["messages"])) * 1e6


def messages(form: str, scratch: Path, effort: Effort) -> Iterator[Figure]:
    """Measure messages without TLS."""
    with ExitStack() as stack:
        both = {kind: start(kind, form, scratch, stack) for kind in (ALONE, SHARDED)}
        found: dict[str, dict[str, list[float]]] = {load: {ALONE: [], SHARDED: []} for load in LOADS}
        for repetition in range(effort.repetitions):
            for load, options in LOADS.items():
                for kind in (ALONE, SHARDED) if repetition % 2 == 0 else (SHARDED, ALONE):
                    found[load][kind].append(message_us(both[kind], options, effort))
        for load, times in found.items():
            yield Figure.ratio(load, times[SHARDED], times[ALONE], "us", MESSAGE_MOST)


def login_us(served: Served, count: int) -> float:
    """Return the processor time of all processes for a login and its end, in microseconds."""
    before = served.cpu_s()
    for _ in range(count):
        Client(served.port, "/").close()
    return spent(before, served.cpu_s()) / count * 1e6


def logins(form: str, scratch: Path, effort: Effort) -> Iterator[Figure]:
    """Measure logins, one after the other."""
    with ExitStack() as stack:
        both = {kind: start(kind, form, scratch, stack) for kind in (ALONE, SHARDED)}
        times: dict[str, list[float]] = {ALONE: [], SHARDED: []}
        for kind in both:
            login_us(both[kind], LOGINS // 10)
        for _ in range(effort.repetitions):
            for kind, served in both.items():
                times[kind].append(login_us(served, LOGINS))
        yield Figure.ratio("a login", times[SHARDED], times[ALONE], "us", LOGIN_MOST)


def tenants(form: str, scratch: Path, effort: Effort) -> Iterator[Figure]:
    """Measure two tenants at once: messages a second, and messages in a second of the busiest process."""
    with ExitStack() as stack:
        both = {kind: start(kind, form, scratch, stack) for kind in (ALONE, SHARDED)}
        rates: dict[str, list[float]] = {ALONE: [], SHARDED: []}
        busiest: dict[str, list[float]] = {ALONE: [], SHARDED: []}
        for _ in range(effort.repetitions):
            for kind, served in both.items():
                rate, of_busiest = _two_tenants(served, effort)
                rates[kind].append(rate)
                busiest[kind].append(of_busiest)
        yield Figure.gain("two tenants, by the busiest process", busiest[SHARDED], busiest[ALONE], TENANTS_LEAST)
        yield Figure.gain("two tenants, beside their generators", rates[SHARDED], rates[ALONE], None)


def _two_tenants(served: Served, effort: Effort) -> tuple[float, float]:
    """Load both virtual hosts at once; return messages a second, and those in a second of the busiest process."""
    before = served.cpu_s()
    window = ("--ack", "100", "--warm-up", str(effort.warm_up), "--seconds", str(effort.window))

    def run(vhost: str) -> loadgen.Result:
        return loadgen.run(served.port, *window, "--vhost", vhost)

    with ThreadPoolExecutor(len(VHOSTS)) as threads:
        results = list(threads.map(run, VHOSTS))
    after = served.cpu_s()
    longest = max(seconds - before.get(pid, 0.0) for pid, seconds in after.items())
    return sum(result["rate"] for result in results), sum(result["consumed"] for result in results) / longest


def by_tls(form: str, scratch: Path, effort: Effort) -> Iterator[Figure]:
    """Measure messages by TLS: with a server name that tells the shard, and with a name that no shard has."""
    loadgen.build()
    with ExitStack() as stack:
        program = tls.build_relay(scratch)
        both = {}
        for kind in (ALONE, SHARDED):
            folder = scratch / f"tls-{kind}"
            folder.mkdir()
            tls.certificates(folder)
            absolute = (TLS_SETTINGS + NAMED).replace('"server', f'"{folder}/server')
            placed = f'vhost = "{VHOSTS[1]}"\n' if kind == SHARDED else ""
            both[kind] = start(kind, form, scratch, stack, absolute + placed)
        relays = {
            "alone": (both[ALONE], tls.relay_to(both[ALONE].secure, program, stack), "/"),
            "named": (both[SHARDED], tls.relay_to(both[SHARDED].secure, program, stack, NAME), VHOSTS[1]),
            "relayed": (both[SHARDED], tls.relay_to(both[SHARDED].secure, program, stack), "/"),
        }
        times: dict[str, list[float]] = {name: [] for name in relays}
        for _ in range(effort.repetitions):
            for name, (served, port, vhost) in relays.items():
                times[name].append(message_us(served, BY_TLS, effort, port, vhost))
        yield Figure.ratio("1 KiB by TLS, server name of a shard", times["named"], times["alone"], "us", NAMED_MOST)
        yield Figure.ratio("1 KiB by TLS, relayed by the parent", times["relayed"], times["alone"], "us", RELAY_MOST)
