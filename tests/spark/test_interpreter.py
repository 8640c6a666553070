"""The Python interpreter that Spark runs; no JVM is needed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SAYS = "import os, sys, pyspark_penstock; print(os.environ.get('PYSPARK_PYTHON'), sys.executable)"
WITH_SESSION = """
import os, types, warnings
from pyspark import SparkContext
SparkContext._active_spark_context = types.SimpleNamespace(pythonExec="python3")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import pyspark_penstock
print(os.environ.get("PYSPARK_PYTHON"), *[each.message for each in caught if "penstock" in str(each.message)])
"""


def told(code: str, path: Path, **environment: str) -> str:
    """Run a program in this virtual environment, with that PATH; what it printed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**kept, "PATH": str(path), **environment}, capture_output=True, text=True,
        timeout=300, check=True,
    )  # fmt: skip
    return done.stdout.strip()


def folder_with_python3(tmp_path: Path) -> Path:
    (tmp_path / "python3").symlink_to("/bin/true")
    return tmp_path


def test_spark_runs_the_python_of_the_virtual_environment(tmp_path: Path) -> None:
    chosen, ours = told(SAYS, folder_with_python3(tmp_path)).split()
    assert chosen == ours == sys.executable


def test_python_that_somebody_has_chosen_is_left_alone(tmp_path: Path) -> None:
    path = folder_with_python3(tmp_path)
    assert told(SAYS, path, PYSPARK_PYTHON="/opt/python").split()[0] == "/opt/python"
    assert told(SAYS, path, PYSPARK_GATEWAY_PORT="1").split()[0] == "None", "spark-submit has its own settings"


def test_interpreter_is_not_chosen_if_python3_is_that_of_the_environment() -> None:
    assert told(SAYS, Path(sys.executable).parent).split()[0] == "None"


def test_session_that_runs_another_python_is_warned_of(tmp_path: Path) -> None:
    said = told(WITH_SESSION, folder_with_python3(tmp_path))
    assert said == (
        f"None Spark runs python3 ({tmp_path}/python3), not {sys.executable}: import pyspark_penstock before the "
        "session is made, or set PYSPARK_PYTHON, else Spark does not find the data source penstock"
    )
