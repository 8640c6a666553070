"""A flood of TLS handshakes: what other clients notice of it.

    python -m bench.handshakes [--seconds 10] [--rounds 3] [--rate 200] [--form compiled]

Each round has three phases: without a flood, with one against the broker, and with the same against a second broker.
The last one tells what the clients of the flood take from others on this machine, whichever broker they flood. A flood
is of whole handshakes (TLS 1.3, P-256), begun at a rate; each client hangs up when it is through. Another client asks
for a queue every 5 ms, without TLS.
"""

from __future__ import annotations

import argparse
import json
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from socket import create_connection

from bench.brokers import COMPILED, INTERPRETED, ROOT
from bench.login import PASSWORD, RoundTrips, p99
from bench.tls import certificates, launch_penstock

THREADS = 25
PATIENCE_S = 5.0
SETTLE_S = 1.0
"""Seconds between the start of a flood and the first round trip that counts."""
QUIET, FLOOD, ELSEWHERE = "without a flood", "flood of the broker", "flood of a second broker"


def flood(port: int, seconds: float, rate: float) -> dict[str, float]:
    """Make handshakes at a rate for some seconds; return how many a second were made, and how many failed."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    begun = time.monotonic()

    def some(number: int) -> tuple[int, int]:
        made, failed, turn = 0, 0, number
        while (due := begun + turn / rate) < begun + seconds:
            time.sleep(max(due - time.monotonic(), 0))
            turn += THREADS
            try:
                with create_connection(("127.0.0.1", port), PATIENCE_S) as plain, context.wrap_socket(plain):
                    made += 1
            except OSError:
                failed += 1
        return made, failed

    with ThreadPoolExecutor(THREADS) as threads:
        found = list(threads.map(some, range(THREADS)))
    spent = time.monotonic() - begun
    return {"made_per_second": round(sum(made for made, _ in found) / spent), "failed": sum(bad for _, bad in found)}


def start(form: str, folder: Path, stack: ExitStack) -> tuple[int, int]:
    """Start a broker until the stack unwinds; return its ports without and with TLS."""
    folder.mkdir()
    certificates(folder)
    _, _, plain, secure = launch_penstock(form, folder, stack, f'\n[users]\nother = "{PASSWORD}"\n')
    return plain, secure


def phase(trips: RoundTrips, port: int | None, seconds: float, rate: float) -> tuple[list[float], dict[str, float]]:
    """Return the round trips of a phase, and what its flood of a port came to."""
    if port is None:
        trips.take()
        time.sleep(seconds)
        return trips.take(), {}
    command = [sys.executable, "-m", "bench.handshakes", "--flood", str(port), "--seconds", str(seconds + 2 * SETTLE_S)]
    attacker = subprocess.Popen([*command, "--rate", str(rate)], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    time.sleep(SETTLE_S)
    trips.take()
    time.sleep(seconds)
    taken = trips.take()
    return taken, json.loads(attacker.communicate()[0])


def measure(form: str, seconds: float, rounds: int, rate: float) -> None:
    """Measure, and print a table of the medians of the rounds."""
    found: dict[str, list[tuple[list[float], dict[str, float]]]] = {QUIET: [], FLOOD: [], ELSEWHERE: []}
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-handshakes-")))
        plain, secure = start(form, scratch / "first", stack)
        _, second = start(form, scratch / "second", stack)
        trips = RoundTrips(plain)
        trips.start()
        stack.callback(trips.join)
        stack.callback(trips.ends.set)
        for number in range(rounds):
            for name, port in ((QUIET, None), (FLOOD, secure), (ELSEWHERE, second)):
                found[name].append(phase(trips, port, seconds, rate))
                time.sleep(SETTLE_S)
            print(f"[{number + 1}/{rounds}]", file=sys.stderr, flush=True)
    print(f"{form}, {rounds} x {seconds:g} s, {rate:g} handshakes a second wanted")
    for name, phases in found.items():
        p50s = [statistics.median(taken) * 1000 for taken, _ in phases]
        p99s = [p99(taken) for taken, _ in phases]
        floods = "; ".join(json.dumps(made) for _, made in phases if made)
        each = " ".join(f"{value:.2f}" for value in p99s)
        p50, p99_ms = statistics.median(p50s), statistics.median(p99s)
        print(f"{name:<26} p50 {p50:6.2f} ms   p99 {p99_ms:6.2f} ms ({each})  {floods}")


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="of a phase (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="default %(default)s")
    parser.add_argument("--rate", type=float, default=200.0, help="handshakes a second (default %(default)s)")
    parser.add_argument("--form", choices=(COMPILED, INTERPRETED), default=COMPILED)
    parser.add_argument("--flood", type=int, metavar="PORT", help="be the flood")
    options = parser.parse_args()
    if options.flood is not None:
        print(json.dumps(flood(options.flood, options.seconds, options.rate)))
    else:
        measure(options.form, options.seconds, options.rounds, options.rate)


if __name__ == "__main__":
    main()
