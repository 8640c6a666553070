"""The whole demo, small, and its errors."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from demo.children import ROOT, Children
from demo.errors import DemoError
from demo.run import SETTINGS, empty

DEMO = (sys.executable, "-m", "demo")


@pytest.mark.spark
def test_small_run_loses_nothing_and_leaves_a_picture(tmp_path: Path):
    output = tmp_path / "demo"
    words = ["--flights", "3000", "--capacity", str(256 * 1024), "--per-trigger", "400", "--output", str(output)]
    done = subprocess.run([*DEMO, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3,000 sent, 3,000 processed, 0 lost, 0 doubled" in done.stdout
    assert "agree with the source" in done.stdout
    assert "batch   0:" in done.stdout
    picture = output / "depth.png"
    assert done.stdout.splitlines()[-1] == f"Picture    {picture}"
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.spark
def test_interrupted_run_ends_everything_and_says_so(tmp_path: Path):
    output = tmp_path / "demo"
    with subprocess.Popen(
        [*DEMO, "--output", str(output)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        assert demo.stderr is not None
        assert "Spark starts" in demo.stdout.readline()
        demo.send_signal(signal.SIGINT)
        _, errors = demo.communicate(timeout=300)
    assert demo.returncode == 1
    assert errors == "demo: ended by SIGINT.\n"
    assert processes_about(output) == []


def processes_about(output: Path) -> list[str]:
    """Return the command lines in which the folder is named; a process that ends meanwhile is left out."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(output) in words and int(entry.parent.name) != os.getpid():
            found.append(words)
    return found


def test_folder_with_something_else_in_it_is_not_emptied(tmp_path: Path):
    (tmp_path / "thesis.txt").write_text("all of it")
    with pytest.raises(DemoError, match="holds something else"):
        empty(tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "all of it"


def test_demo_removes_the_output_of_an_earlier_run(tmp_path: Path):
    (tmp_path / SETTINGS).touch()
    (tmp_path / "batches").mkdir()
    empty(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_process_that_fails_ends_the_demo_with_its_last_words(tmp_path: Path):
    with Children(tmp_path) as children:
        child = children.start("broker", "penstock", "serve", "--listen", "nowhere")
        with pytest.raises(DemoError, match=r"broker failed: penstock: --listen nowhere is not HOST:PORT.*broker\.log"):
            children.line_from(child, 60)


def test_leaving_ends_a_process_that_would_go_on(tmp_path: Path):
    with Children(tmp_path) as children:
        child = children.start("broker", "penstock", "serve", "--listen", "127.0.0.1:0", "--memory")
        children.line_from(child, 60)
    assert child.process.returncode == 0
