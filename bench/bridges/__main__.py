"""Bridges: `python -m bench.bridges cost` and `python -m bench.bridges brake`."""

import argparse
import sys

from bench.bridges import brake, cost
from bench.brokers import COMPILED, INTERPRETED


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m bench.bridges", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    costs = commands.add_parser("cost", help=cost.__doc__)
    costs.add_argument("--sizes", type=int, nargs="+", default=list(cost.SIZES))
    costs.add_argument("--messages", type=int, default=cost.MESSAGES)
    costs.add_argument("--rounds", type=int, default=cost.ROUNDS)
    costs.add_argument("--alone", action="store_true", help="without RabbitMQ")
    brakes = commands.add_parser("brake", help=brake.__doc__)
    brakes.add_argument("--protocols", nargs="+", choices=cost.PROTOCOLS, default=list(cost.PROTOCOLS))
    brakes.add_argument("--seconds", type=int, default=60)
    brakes.add_argument("--rate", type=float, default=brake.RATE)
    brakes.add_argument("--form", choices=(COMPILED, INTERPRETED), default=COMPILED)
    given = parser.parse_args()
    if given.command == "brake":
        return brake.measure(given.protocols, given.seconds, given.rate, given.form)
    return cost.measure(tuple(given.sizes), given.messages, given.rounds, not given.alone)


if __name__ == "__main__":
    sys.exit(main())
