"""RabbitMQ PerfTest, the load generator of many reports: its sets of options (Maven: com.rabbitmq:perf-test).

Among them are rates at both ends, acknowledgements one by one, all at once and never, transactions,
patterns of queues, rates that vary, limits of a queue, polling.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from compat.applications import programs
from tests.support.fetched_clients import ClientMissingError, framework_jars

SECONDS = 2
BODIES = {"one.json": '{"a": 1, "b": "text", "c": [1, 2, 3]}', "two.json": '{"order": 17}'}
SETS = {
    "plain": "-r 1000",
    "confirms": "-c 100 -r 1000",
    "a confirm for each": "-c 1",
    "acknowledgements of ten": "-x 2 -y 4 -q 50 -A 10 -c 50 -r 500",
    "automatic acknowledgement": "-a -r 500 -q 100",
    "prefetch of a channel": "-Q 50 -A 5 -r 500",
    "quorum queue": "-qq -u NAME -c 50 -r 500",
    "persistent and mandatory": "-u NAME -ad false -f persistent -f mandatory -c 50 -r 500",
    "bodies from files": "-B one.json,two.json -T application/json -r 500 -c 20",
    "random JSON": "-jb -s 2000 -r 200 -c 20",
    "variable rate": "-vr 100:1 -vr 1000:1 -c 20",
    "variable size": "-vs 100:1 -vs 20000:1 -r 200 -c 20",
    "variable latency": "-vl 0:1 -vl 10000:1 -r 200 -c 20 -q 5",
    "queues by a pattern": "-qp NAME-%d -qpf 1 -qpt 10 -x 10 -y 10 -r 50 -c 5",
    "counts": "-C 2000 -D 2000 -c 50",
    "polling": "-po -pi 5 -r 200",
    "refusals that requeue": "-na -re true -r 50 -q 5",
    "refusals": "-na -re false -r 200",
    "transactions": "-m 10 -n 10 -r 500",
    "topic exchange": "-t topic -e amq.topic -k a.b -r 500 -c 10",
    "random routing keys": "-t fanout -e NAME -rkcs 100 -r 500",
    "headers and priorities": "-mp priority=5,header1=x,timestamp=2023-01-01T00:00:00+00:00 -qa x-max-priority=9",
    "limit that refuses": "-qa x-max-length=100,x-overflow=reject-publish -u NAME -c 20 -r 1000 -R 100",
    "limit that drops": "-qa x-max-length=100 -u NAME -r 1000 -R 100",
    "single active consumer": "-qa x-single-active-consumer=true -u NAME -x 1 -y 3 -r 300",
    "many connections": "-x 20 -y 20 -r 10",
    "many channels": "-X 5 -Y 5 -r 100 -c 5",
    "non-blocking sockets": "-niot 4 -niotp 6 -x 10 -y 10 -r 50",
    "lazy queue": "-qa x-queue-mode=lazy -u NAME -r 300 -f persistent",
    "exclusive queue": "-E -u NAME -r 200",
    "slow start": "-S -y 3 -r 200",
    "priority of a consumer": "-ca x-priority=10 -r 200",
}
TROUBLE = re.compile(r"exception|error|precondition|shutdown signal", re.IGNORECASE)


@pytest.fixture(scope="module")
def command() -> list[str]:
    java = shutil.which("java")
    if java is None:
        pytest.skip("java is not installed")
    try:
        jars = framework_jars()
    except ClientMissingError as missing:
        pytest.skip(str(missing))
    return [java, "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", "com.rabbitmq.perf.PerfTest"]


@pytest.mark.parametrize("options", SETS.values(), ids=SETS)
def test_perf_test(command: list[str], options: str, url: str, name: str, tmp_path: Path) -> None:
    for file, body in BODIES.items():
        (tmp_path / file).write_text(body)
    words = [*command, "-h", url, "-z", str(SECONDS), *options.replace("NAME", name).split()]
    done = subprocess.run(
        words,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=programs.LIMIT,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    printed = f"{done.stdout}\n{done.stderr}"
    assert done.returncode == 0, printed
    assert [line for line in printed.splitlines() if TROUBLE.search(line)] == []
    for what in ("sending", "receiving"):
        (rate,) = re.findall(rf"{what} rate avg: (\d+) msg/s", printed)
        assert int(rate) > 0, printed
