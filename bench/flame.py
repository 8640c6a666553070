"""Where the processor time of the broker goes: flame graphs of rows of the bench, in SVG, made of what perf sees.

    python -m bench.flame [ROW ...] [--protocol amqp091] [--form compiled] [--seconds 5] [--output build]

Each row's load runs once, with `perf record` beside it. In the picture a box is a function, as wide as its share of the
samples, and stands on its caller; its title tells the share. Blue is Penstock compiled, orange Python and its modules
in C, grey the rest: the kernel and libraries.
"""

from __future__ import annotations

import argparse
import html
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bench import loadgen
from bench.brokers import COMPILED, INTERPRETED, ROOT, Broker, start
from bench.loadgen import AMQP091, AMQP1
from bench.scenarios import SCENARIOS_OF, Scenario

ROWS = ("confirms", "persistent")
HERTZ = 999
WIDTH, HEIGHT, LETTER = 1600, 16, 6.2
"""Pixels: of the picture, of a box, and of a letter's width."""
NARROWEST = 0.5
"""Pixels; narrower boxes, and what stands on them, are left out."""
BLUE, ORANGE, GREY = "#9ecae1", "#fdd0a2", "#d9d9d9"


@dataclass
class Frame:
    """A function that was called in one way, with all samples of it and of what it calls."""

    samples: int = 0
    calls: dict[str, Frame] = field(default_factory=dict)

    def depth(self) -> int:
        """Return how many boxes stand on each other."""
        return 1 + max((each.depth() for each in self.calls.values()), default=0)


def colour_of(name: str) -> str:
    """Return the colour of a box."""
    return BLUE if name.startswith("CPy") else ORANGE if re.match("_?(Py|py|method_|cfunction_)", name) else GREY


def folded(script: str) -> Frame:
    """Return the calls of all samples of `perf script -F ip,sym`: a block each, the innermost function first."""
    root = Frame()
    for block in script.split("\n\n"):
        names = [line.split(None, 1)[-1].strip() for line in reversed(block.splitlines()) if line.strip()]
        frame = root
        frame.samples += bool(names)
        for name in names:
            frame = frame.calls.setdefault(name, Frame())
            frame.samples += 1
    return root


def boxes(frame: Frame, left: float, bottom: float, pixels: float, total: int) -> Iterator[str]:
    """Yield the boxes that stand on a frame, the widest first; a sample is so many pixels wide."""
    for name, each in sorted(frame.calls.items(), key=lambda call: -call[1].samples):
        width = each.samples * pixels
        if width < NARROWEST:
            return
        shown = name.removeprefix("CPyDef_").replace("___", ".")  # as in Python, where mypyc has made it of that
        title = html.escape(f"{shown}: {each.samples / total:.2%}")
        yield f'<g><title>{title}</title><rect x="{left:.1f}" y="{bottom - HEIGHT:.1f}" width="{width:.1f}" '
        yield f'height="{HEIGHT - 1}" fill="{colour_of(name)}"/>'
        if width > 3 * LETTER:
            label = html.escape(shown[: int(width / LETTER) - 1])
            yield f'<text x="{left + 2:.1f}" y="{bottom - 5:.1f}">{label}</text>'
        yield "</g>\n"
        yield from boxes(each, left, bottom - HEIGHT, pixels, total)
        left += width


def draw(root: Frame, title: str) -> str:
    """Return the flame graph as SVG."""
    height = (root.depth() + 1) * HEIGHT
    parts = boxes(root, 0.0, float(height), WIDTH / max(1, root.samples), root.samples)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="monospace" '
        f'font-size="10">\n<rect width="100%" height="100%" fill="white"/>\n'
        f'<text x="4" y="12" font-size="12">{html.escape(title)}</text>\n{"".join(parts)}</svg>\n'
    )


def sampled(broker: Broker, scenario: Scenario, protocol: str, seconds: float, data: Path) -> Frame:
    """Load the broker while perf looks at it. Raises LoadError, with what perf or the generator said."""
    load = [str(loadgen.build(protocol)), "--port", str(broker.port), *scenario.options, "--warm-up", "0"]
    record = ["perf", "record", "-q", "-F", str(HERTZ), "--call-graph", "dwarf", "-o", str(data), "-p",
              str(broker.process.pid), "--", *load, "--seconds", str(seconds)]  # fmt: skip
    script = ["perf", "script", "--no-inline", "-F", "ip,sym", "-i", str(data)]
    found = ""
    for command in (record, script):
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode:
            said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise loadgen.LoadError(f"`{' '.join(command[:2])}` failed: {said}")
        found = done.stdout
    return folded(found)


def arguments(words: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="bench.flame", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", default=ROWS, help=f"by default {' and '.join(ROWS)}")
    parser.add_argument("--protocol", choices=[AMQP091, AMQP1], default=AMQP091, help="by default %(default)s")
    parser.add_argument("--form", choices=[COMPILED, INTERPRETED], default=COMPILED, help="by default %(default)s")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each row's load (default %(default)g)")
    parser.add_argument("--output", type=Path, default=ROOT / "build", help="the folder (default %(default)s)")
    wanted = parser.parse_args(words)
    there = [scenario.key for scenario in SCENARIOS_OF[wanted.protocol]]
    if unknown := sorted(set(wanted.rows) - set(there)):
        parser.error(f"no row of {wanted.protocol}: {', '.join(unknown)}; there are {', '.join(there)}")
    if not 0 < wanted.seconds <= 600:
        parser.error(f"--seconds {wanted.seconds:g}: more than 0 and at most 600 are wanted")
    if wanted.output.exists() and not wanted.output.is_dir():
        parser.error(f"--output {wanted.output}: this is no directory")
    return wanted


def main(words: list[str] | None = None) -> int:
    """Draw each row; 1 if a load failed, 0 where there is no perf."""
    wanted = arguments(words)
    if not shutil.which("perf"):
        print("Skipped: perf is not installed (Debian: apt-get install linux-perf).")
        return 0
    wanted.output.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-flame-")))
        broker = start(wanted.form, scratch, stack, print)
        if broker is None:
            return 1
        for scenario in (each for each in SCENARIOS_OF[wanted.protocol] if each.key in wanted.rows):
            try:
                root = sampled(broker, scenario, wanted.protocol, wanted.seconds, scratch / "perf.data")
            except loadgen.LoadError as reason:
                print(reason, file=sys.stderr)
                return 1
            file = wanted.output / f"profile-{wanted.protocol}-{scenario.key}.svg"
            title = f"{scenario.title} ({wanted.protocol}, {broker.title}): {root.samples:,} samples"
            file.write_text(draw(root, title))
            print(f"{title}, in {file}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
