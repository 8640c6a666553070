"""Run `penstock bench flow` against a freshly started Penstock, and RabbitMQ beside it where it is installed.

`--brokers artemis` runs it over AMQP 1.0 against Artemis. `--protocol amqp10` runs all over AMQP 1.0.
With `--protocol amqp1` the C generator (bench/loadgen10.c) measures what links send against the places that there are.
"""

import argparse
import json
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench import loadgen, peers10
from bench.brokers import COMPILED, RABBITMQ, STARTERS, start
from bench.flow import links
from penstock.cli.bench import show
from penstock.client.bench.flow import EXPERIMENTS, Card, Cell, figures, met, scorecard
from penstock.client.bench.flow_parties import Place
from penstock.client.bench.target import Target

AMQP10 = "amqp10"
"""The scorecard over AMQP 1.0."""
OUTPUT = Path(__file__).resolve().parents[1] / "output" / "flow.jsonl"


def say(text: str) -> None:
    """Print at once, also into a pipe."""
    print(text, flush=True)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="bench.flow", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    keys = [experiment.key for experiment in EXPERIMENTS]
    parser.add_argument("--quick", action="store_true", help="shorter runs, fewer cells: about two minutes")
    parser.add_argument("--only", nargs="+", choices=keys, default=keys, metavar="EXPERIMENT", help=", ".join(keys))
    parser.add_argument("--protocol", choices=[loadgen.AMQP091, AMQP10, loadgen.AMQP1], default=loadgen.AMQP091,
                        help="amqp1: what links send, against the places (default %(default)s)")  # fmt: skip
    parser.add_argument("--brokers", nargs="+", choices=sorted({*STARTERS, *peers10.NAMES}), metavar="BROKER",
                        help="%(choices)s; by default the compiled form and the peers")  # fmt: skip
    parser.add_argument("--output", type=Path, default=OUTPUT, help="one JSON line a cell (default %(default)s)")
    return parser.parse_args()


def main() -> int:
    """Run it; 1 if one of our goals is missed or nothing could be run."""
    wanted = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if wanted.protocol == loadgen.AMQP1:
        return links.main(wanted, say)
    found: dict[str, list[Cell]] = {}
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-flow-")))
        for name in wanted.brokers or [COMPILED, RABBITMQ]:
            if name in STARTERS:
                protocol, broker = wanted.protocol, start(name, scratch, stack, say)
            else:
                protocol, broker = AMQP10, peers10.start(name, scratch, stack, say, None)
            if broker is not None:
                url = f"amqp://guest:guest@127.0.0.1:{broker.port}/?protocol={protocol}"
                place = Place(Target.ask(url), (protocol,))
                seconds = 2.0 if wanted.quick else 5.0
                card = Card(place, say, seconds, not wanted.quick, broker.process.pid)
                found[name] = list(card.cells(set(wanted.only)))
    rows = [{"broker": name, **row} for name, cells in found.items() for row in scorecard(cells)]
    wanted.output.parent.mkdir(parents=True, exist_ok=True)
    lines = [{"broker": name, **row} for name, cells in found.items() for row in figures(cells)]
    wanted.output.write_text("".join(json.dumps(line) + "\n" for line in lines))
    if not rows:
        say("Nothing could be run.")
        return 1
    show(rows)
    ours = found[next(iter(found))]
    return 0 if all(met([cell]) for cell in ours) else 1


if __name__ == "__main__":
    sys.exit(main())
