"""Kill a broker under load, again and again, and look after each restart whether it kept its promises.

What is confirmed and not acknowledged must be there, once, whole and in order; what was surely acknowledged must not;
a transaction is there in full or not at all; what was declared is declared. Exit code 1 when a promise was broken: the
first is told in words, and the directory with the broker's data, its log and a journal of that round stays.
"""

import argparse
import shutil
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

import penstock
from bench.brokers import COMPILED, INTERPRETED, RABBITMQ, BrokerUnavailable
from bench.crash.database import PostgresTarget
from bench.crash.history import Violation
from bench.crash.rounds import Rounds
from bench.crash.shards import PARENT, RESTARTS, SHARDS, NodeRounds, NodeTarget
from bench.crash.target import Target
from bench.crash.wire import Gone, Refused

OUTPUT = Path(__file__).resolve().parents[1] / "output" / "crash"
SQLITE, POSTGRES = "sqlite", "postgres"
MOST_TOLD = 5
"""Broken promises of a round that are told."""


def say(text: str) -> None:
    """Print at once, also into a pipe."""
    print(text, flush=True)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="bench.crash", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ours = COMPILED if penstock.compiled() else INTERPRETED
    parser.add_argument("--broker", choices=["penstock", COMPILED, INTERPRETED, RABBITMQ], default="penstock",
                        help=f"who is killed (penstock is the {ours} form here)")  # fmt: skip
    parser.add_argument("--store", choices=[SQLITE, POSTGRES], default=SQLITE,
                        help="where Penstock keeps what is durable (default %(default)s); postgres: in a server of "
                             "its own, which is killed at times too")  # fmt: skip
    parser.add_argument("--shards", type=int, default=0, metavar="N",
                        help="a node with so many shards: they are killed, or their parent")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=500, help="how many (default %(default)s)")
    parser.add_argument("--first", type=int, default=1, metavar="N", help="number of the first round: one that failed")
    parser.add_argument("--seed", type=int, help="what chance begins with (default: another one each time)")
    parser.add_argument("--amqp10", type=float, default=0.4, metavar="SHARE",
                        help="share of Penstock's clients that speak AMQP 1.0 (default %(default)s)")  # fmt: skip
    parser.add_argument("--keep-going", action="store_true", help="do not end with the first round that fails")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="where the directory is made (default %(default)s)")
    wanted = parser.parse_args()
    if wanted.rounds < 1:
        parser.error(f"--rounds {wanted.rounds}: at least 1 is needed")
    if wanted.shards < 0 or (wanted.shards and (wanted.broker == RABBITMQ or wanted.store == POSTGRES)):
        parser.error(f"--shards {wanted.shards}: shards have Penstock's own stores, and there are at least 1")
    if wanted.broker == RABBITMQ and wanted.store == POSTGRES:
        parser.error(f"--store {POSTGRES}: {RABBITMQ} has a store of its own")
    if wanted.broker == "penstock":
        wanted.broker = ours
    return wanted


def run(rounds: Rounds | NodeRounds, first: int, count: int, keep_going: bool) -> list[tuple[int, list[Violation]]]:
    """Run them; return the rounds that failed."""
    failed = []
    for number in range(first, first + count):
        broken = rounds.run(number)
        if broken:
            failed.append((number, broken))
            say(f"round {number}, seed {rounds.seed}: {len(broken)} promises were broken")
            for violation in broken[:MOST_TOLD]:
                say(f"  {violation.kind}: {violation.text}")
            if not keep_going:
                break
        elif (number - first + 1) % 10 == 0:
            say(f"round {number}: {rounds.target.kills} kills, {rounds.counts['confirmed']:,} confirmed, none lost")
    return failed


def totals(rounds: Rounds | NodeRounds, failed: list[tuple[int, list[Violation]]], seconds: float) -> str:
    """Return what came of it as text."""
    counts, target = rounds.counts, rounds.target
    restarts = target.restarts[1:] or [0.0]
    lines = [
        ("rounds", f"{counts['rounds']:,} in {seconds:,.0f} s, {len(failed)} failed; seed {rounds.seed}"),
        ("kills", f"{target.kills:,}; of the store's server {target.store_kills:,}"),
        ("of shards", f"{counts[SHARDS]:,} rounds, of the parent {counts[PARENT]:,}, of restarts "
                      f"{counts[RESTARTS]:,}; clients ended with another shard {counts['! neighbour']:,}"),
        ("clients", f"{counts['clients']:,}; of these {counts['clients of AMQP 1.0']:,} over AMQP 1.0"),
        ("confirmed", f"{counts['confirmed']:,}; delivered {counts['delivered']:,}"),
        ("had to be there", f"{counts['be there']:,}; lost {counts['! lost']:,}"),
        ("had to be gone", f"{counts['be gone']:,}; acknowledged ones back {counts['! acknowledged back']:,}, "
                           f"others {counts['! back']:,}"),
        ("acknowledged in doubt", f"{counts['acknowledged in doubt, back']:,} back, of these "
                                  f"{counts['acknowledged in doubt, back unmarked']:,} not marked as redelivered"),
        ("not acknowledged", f"{counts['unacknowledged, back unmarked']:,} back without the mark, which is allowed"),
        ("order", f"{counts['! order']:,} broken; twice {counts['! duplicate']:,}, altered {counts['! altered']:,}"),
        ("transactions in doubt", f"{counts['transactions in doubt, taken']:,} taken, "
                                  f"{counts['transactions in doubt, not taken']:,} not, "
                                  f"{counts['transactions by halves']:,} by halves"),
        ("declarations", f"{counts['! missing']:,} missing, {counts['! deleted back']:,} deleted ones back"),
        ("moved or redriven", f"{counts['transferred']:,} by jobs that were answered; {counts['transferred, found']:,} "
                              "found in the other queue"),
        ("groups", f"{counts['groups passed on']:,} went to another consumer; with two at a time "
                   f"{counts['! group shared']:,}, out of order {counts['! group order']:,}"),
        ("paged", f"{counts['paged']:,} on the disk only after restarts"),
        ("streams", f"{counts['in streams']:,} messages read again after restarts"),
        ("retained", f"{counts['retained']:,} settled messages read again after restarts"),
        ("restart", f"median {statistics.median(restarts):.2f} s, longest {max(restarts):.2f} s"),
    ]  # fmt: skip
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name.ljust(width)}  {text}" for name, text in lines)


def main() -> int:
    """Run it; 1 when a promise was broken, 2 when nothing could be run."""
    wanted = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    seed = wanted.seed if wanted.seed is not None else time.time_ns() % 1_000_000
    wanted.output.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f"{wanted.broker}-", dir=wanted.output))
    target: Target
    try:
        if wanted.shards:
            target = NodeTarget(wanted.broker, scratch, wanted.shards)
        else:
            target = (PostgresTarget if wanted.store == POSTGRES else Target)(wanted.broker, scratch)
    except BrokerUnavailable as reason:
        say(str(reason))
        return 2
    say(f"{target.node.title}; seed {seed}, rounds {wanted.first} to {wanted.first + wanted.rounds - 1}, in {scratch}")
    amqp10 = 0.0 if wanted.broker == RABBITMQ else wanted.amqp10
    begun = time.monotonic()
    rounds: Rounds | NodeRounds = Rounds(target, seed, amqp10)
    if isinstance(target, NodeTarget):
        rounds = NodeRounds(target, seed, amqp10)
    try:
        failed = run(rounds, wanted.first, wanted.rounds, wanted.keep_going)
    except BrokerUnavailable as reason:
        say(f"The broker did not come back: {reason} Its directory stays: {scratch}; seed {seed}")
        return 1
    except (Gone, Refused, TimeoutError) as reason:
        say(f"The broker came back and did not answer: {reason}. Its directory stays: {scratch}; seed {seed}")
        return 1
    finally:
        target.close()
    say(totals(rounds, failed, time.monotonic() - begun))
    if failed:
        number = failed[0][0]
        say(f"Round {number} was the first: its journal, its data as the kill left them and the log are in {scratch}")
        again = f"--broker {wanted.broker} --store {wanted.store} --shards {wanted.shards} --amqp10 {amqp10}"
        again += f" --seed {seed} --first {number} --rounds 1"
        say(f"Once more: python -m bench.crash {again}")
        return 1
    shutil.rmtree(scratch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
