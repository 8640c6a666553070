"""Spark in processes of its own: Connect, a standalone cluster with two brokers, declarative pipelines.

Each of these starts several JVMs, so they run with --hypothesis-profile=nightly only. Each process ends with its test.
"""

import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.processes import free_port
from tests.profiles import thorough
from tests.spark.conftest import run_spark, until

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not thorough(), reason="minutes and gigabytes: with --hypothesis-profile=nightly"),
]

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 900
"""Longest run of one program of Spark, on a busy machine."""

READ = """
import sys
import pyspark_penstock
from pyspark.sql import SparkSession
spark = {session}
frame = spark.readStream.format("penstock").option("servers", {servers!r}).option("subscribe", {queue!r})
rows = frame.option("cursor", {cursor!r}).option("minPartitions", "4").load()
query = rows.writeStream.format("penstock").option("servers", {target!r}).option("queue", {out!r})
query = query.option("checkpointLocation", {checkpoint!r})
assert query.trigger(availableNow=True).start().awaitTermination({seconds})
spark.stop()
"""


def spark_home() -> Path:
    spec = importlib.util.find_spec("pyspark")
    assert spec.origin is not None
    return Path(spec.origin).parent


def environment(**more: str) -> dict[str, str]:
    """Return an environment in which Spark runs this Python with these sources."""
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    return {**os.environ, "PYTHONPATH": path, "SPARK_HOME": str(spark_home()), **python, **more}


def listens(port: int) -> bool:
    with socket.socket() as trying:
        return trying.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def process(log: Path, *command: str, **more: str) -> Iterator[None]:
    """A process in a group of its own, which ends with the context."""
    with log.open("wb") as out:
        running = subprocess.Popen(
            command, stdout=out, stderr=out, env=environment(**more), cwd=log.parent, start_new_session=True
        )
        try:
            yield
        finally:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait(60)


def test_client_of_spark_connect_reads_and_writes_queues(broker, tmp_path):
    queue, out, port = broker.declare(), "connect-out", free_port()
    broker.declare(name=out)
    broker.publish(queue, [b"%d" % number for number in range(500)])
    settings = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    server = [str(spark_home() / "bin" / "spark-submit"), "--master", "local[2]"]
    server += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    for name, value in settings.items():
        server += ["--conf", f"{name}={value}"]
    with process(tmp_path / "server.log", "bash", *server, "spark-internal"):
        until(lambda: listens(port), "the server listens", SECONDS)
        code = READ.format(
            session=f"SparkSession.builder.remote('sc://127.0.0.1:{port}').getOrCreate()",
            servers=broker.address, target=broker.address, queue=queue, cursor=f"c-{queue}", out=out,
            checkpoint=str(tmp_path / "checkpoint"), seconds=SECONDS,
        )  # fmt: skip
        run_spark(sys.executable, "-c", code, env=environment())
    assert sorted(broker.drain(out, 500)) == sorted(b"%d" % number for number in range(500))
    assert broker.depth(queue) == 0


def test_cluster_of_two_workers_reads_two_brokers_as_one_source(broker, second_broker, tmp_path):
    queue, out, port = broker.declare(), "cluster-out", free_port()
    second_broker.declare(name=queue)
    broker.declare(name=out)
    broker.publish(queue, [b"a%d" % number for number in range(300)])
    second_broker.publish(queue, [b"b%d" % number for number in range(300)])
    java = str(spark_home() / "bin" / "spark-class")
    master = ("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
    worker = ("org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", "--cores", "2")
    worker = (*worker, "--memory", "1g", f"spark://127.0.0.1:{port}")
    with process(tmp_path / "master.log", "bash", java, *master):
        until(lambda: listens(port), "the master listens", SECONDS)
        with (
            process(tmp_path / "one.log", "bash", java, *worker, "--work-dir", str(tmp_path / "one")),
            process(tmp_path / "two.log", "bash", java, *worker, "--work-dir", str(tmp_path / "two")),
        ):
            registered = tmp_path / "master.log"
            until(lambda: registered.read_text().count("Registering worker") == 2, "both workers are there", SECONDS)
            session = (
                f"SparkSession.builder.master('spark://127.0.0.1:{port}').config('spark.ui.enabled', 'false')"
                ".config('spark.driver.host', '127.0.0.1').config('spark.executor.memory', '512m').getOrCreate()"
            )
            code = READ.format(
                session=session, servers=f"{broker.address},{second_broker.address}", target=broker.address,
                queue=queue, cursor=f"c-{queue}", out=out, checkpoint=str(tmp_path / "checkpoint"), seconds=SECONDS,
            )  # fmt: skip
            run_spark(sys.executable, "-c", code, env=environment())
    expected = [b"%s%d" % (side, number) for side in (b"a", b"b") for number in range(300)]
    assert sorted(broker.drain(out, 600)) == sorted(expected)
    assert broker.depth(queue) == second_broker.depth(queue) == 0


def test_declarative_pipeline_continues_in_the_second_run(broker, tmp_path):
    broker.declare(name="sales")
    project = tmp_path / "pipelines"
    shutil.copytree(ROOT / "examples" / "pipelines", project)
    for file in (project / "spark-pipeline.yml", project / "conf" / "spark-defaults.conf"):
        file.write_text(file.read_text().replace("/tmp/penstock-pipeline", str(tmp_path / "data")))
    (tmp_path / "data").mkdir()
    pipelines = ("bash", str(spark_home() / "bin" / "spark-pipelines"), "run")
    found = (
        "import json; from pyspark.sql import SparkSession; spark = SparkSession.builder.getOrCreate(); "
        "print(json.dumps({row.customer: row.amount for row in spark.read.table('totals').collect()}))"
    )
    settings = {"BROKER": broker.address, "SPARK_CONF_DIR": str(project / "conf")}
    totals = []
    for orders in ([("ann", 3), ("bob", 4)], [("ann", 5)]):
        bodies = [json.dumps({"customer": customer, "amount": amount}).encode() for customer, amount in orders]
        broker.publish("sales", bodies)
        run_spark(*pipelines, cwd=project, env=environment(**settings))
        done = subprocess.run(
            [sys.executable, "-c", found], env=environment(**settings), cwd=project, capture_output=True, check=True,
            timeout=SECONDS,
        )  # fmt: skip
        totals.append(json.loads(done.stdout.splitlines()[-1]))
    assert totals == [{"ann": 3, "bob": 4}, {"ann": 8, "bob": 4}]
    assert broker.depth("sales") == 0
