"""Wrong passwords against a broker: what others and right logins notice of an attack.

    python -m bench.login [--seconds 10] [--rounds 3] [--form compiled]

Each round has a quiet phase and an attack. In the attack 50 sockets give 1,000 wrong passwords a second for a user with
a scrypt hash: each connects, sends its password, waits 50 ms at most and hangs up. Meanwhile a client of another user
measures round trips (a passive declare every 5 ms), and right logins are made once a second: of a user that has logged
in before (warm), and of one that never has (cold). All are on this machine, where the back-off refuses nobody.
"""

import argparse
import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from bench import processes
from bench.brokers import COMPILED, INTERPRETED, ROOT, PenstockNode
from penstock.access.password_hash import hash_password
from penstock.sync import connect
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from penstock.wire.sasl import plain_response

SOCKETS = 50
RATE = 1_000
PATIENCE_S = 0.05
COLD = 100
PASSWORD = "the right one"
APART_S = 0.005


def settings() -> str:
    """The users: all but `other` have hashes."""
    names = ["ada", *(f"cold{number}" for number in range(COLD))]
    digest = hash_password(PASSWORD, b"sixteen octets..").text()
    hashed = "\n".join(f'{name} = {{ password_hash = "{digest}" }}' for name in names)
    return f'[users]\nother = "{PASSWORD}"\n{hashed}\n'


async def attack(port: int, seconds: float) -> dict[str, int]:
    """Give wrong passwords; return how many were sent and how many were answered."""
    begin = time.monotonic()
    counts = {"sent": 0, "answered": 0, "turned_away": 0}
    start_ok = method_frame(
        0,
        spec.CONNECTION_START_OK,
        client_properties={"capabilities": {"authentication_failure_close": True}},
        mechanism="PLAIN",
        response=plain_response("ada", "a wrong one"),
    )

    async def one(number: int) -> None:
        turn = number
        while time.monotonic() - begin < seconds:
            await asyncio.sleep(begin + turn / RATE - time.monotonic())
            turn += SOCKETS
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"AMQP\x00\x00\x09\x01" + start_ok)
                counts["sent"] += 1
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(PATIENCE_S - 0.01):
                        await reader.readexactly(400)  # connection.start
                        if await reader.read(1):
                            counts["answered"] += 1
                writer.transport.abort()
            except (OSError, asyncio.IncompleteReadError):
                counts["turned_away"] += 1

    await asyncio.gather(*(one(number) for number in range(SOCKETS)))
    counts["ms"] = int((time.monotonic() - begin) * 1000)
    return counts


class RoundTrips(threading.Thread):
    """A client that asks for a queue again and again, and notes how long each answer takes."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.connection = connect(f"amqp://127.0.0.1:{port}", user="other", password=PASSWORD, protocol="amqp091")
        self.connection.declare_queue("round-trips")
        self.seconds: list[float] = []
        self.ends = threading.Event()

    def run(self) -> None:
        """Measure until the end."""
        while not self.ends.wait(APART_S):
            begun = time.perf_counter()
            self.connection.declare_queue("round-trips")
            self.seconds.append(time.perf_counter() - begun)

    def take(self) -> list[float]:
        """Take what was measured since the last call."""
        taken, self.seconds = self.seconds, []
        return taken


def login_s(port: int, user: str) -> float:
    """Return the seconds that a right login takes, from connect to connection.open-ok."""
    begun = time.perf_counter()
    connect(f"amqp://127.0.0.1:{port}", user=user, password=PASSWORD, protocol="amqp091").close()
    return time.perf_counter() - begun


def phase(port: int, trips: RoundTrips, seconds: float, cold: list[str], under_attack: bool) -> dict[str, object]:
    """Run one phase; return what was measured."""
    attacker = None
    if under_attack:
        command = [sys.executable, "-m", "bench.login", "--attack", str(port), "--seconds", str(seconds)]
        attacker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        time.sleep(1.0)
    trips.take()
    ends = time.monotonic() + seconds - 1.5
    warm_s, cold_s = [], []
    while time.monotonic() < ends:
        warm_s.append(login_s(port, "ada"))
        cold_s.append(login_s(port, cold.pop()))
        time.sleep(1.0)
    found: dict[str, object] = {"trips": trips.take(), "warm": warm_s, "cold": cold_s}
    if attacker is not None:
        found["attack"] = json.loads(attacker.communicate()[0])
    return found


def p99(values: list[float]) -> float:
    """The 99th percentile in milliseconds."""
    return sorted(values)[int(len(values) * 0.99)] * 1000


def measure(form: str, seconds: float, rounds: int) -> None:
    """Measure, and print the table."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "penstock.toml"
        config.write_text(settings())
        node = PenstockNode(form, Path(folder), config=config)
        process = node.launch()
        try:
            port = node.port(process)
            login_s(port, "ada")
            trips = RoundTrips(port)
            trips.start()
            cold = [f"cold{number}" for number in range(COLD)]
            report(node.title, [run(port, trips, seconds, cold) for _ in range(rounds)])
            trips.ends.set()
            trips.join()
        finally:
            processes.stop(process)


def run(port: int, trips: RoundTrips, seconds: float, cold: list[str]) -> tuple[dict[str, object], dict[str, object]]:
    """One round: quiet, then the attack."""
    quiet = phase(port, trips, seconds, cold, False)
    time.sleep(2.5)
    attacked = phase(port, trips, seconds, cold, True)
    time.sleep(2.5)
    return quiet, attacked


def report(title: str, results: list[tuple[dict[str, object], dict[str, object]]]) -> None:
    """Print medians of the rounds."""
    print(title)
    print("| phase | p50 ms | p99 ms | warm login, median and worst ms | cold login, median and worst ms | attack |")
    print("|---|---|---|---|---|---|")
    for name, index in (("quiet", 0), ("attack", 1)):
        phases = [result[index] for result in results]
        trips = [each["trips"] for each in phases]
        p50s = statistics.median(statistics.median(each) * 1000 for each in trips)  # type: ignore[arg-type]
        p99s = statistics.median(p99(each) for each in trips)  # type: ignore[arg-type]
        logins = []
        for kind in ("warm", "cold"):
            seconds = [second for each in phases for second in each[kind]]  # type: ignore[attr-defined]
            logins.append(f"{statistics.median(seconds) * 1000:.0f}, {max(seconds) * 1000:.0f}")
        attacks = [each.get("attack") for each in phases]
        print(f"| {name} | {p50s:.2f} | {p99s:.2f} | {logins[0]} | {logins[1]} | {attacks if index else ''} |")


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--form", choices=(COMPILED, INTERPRETED), default=INTERPRETED)
    parser.add_argument("--attack", type=int, metavar="PORT", help="be the attacker")
    options = parser.parse_args()
    if options.attack is not None:
        print(json.dumps(asyncio.run(attack(options.attack, options.seconds))))
    else:
        measure(options.form, options.seconds, options.rounds)


if __name__ == "__main__":
    main()
