"""The tests of RabbitMQ's Java client: from Debian's source package, compiled against the client from Maven Central.

Maven Central has the client without its tests; the source package of Debian's librabbitmq-client-java has them.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tarfile
from pathlib import Path

from compat.substitutions import SourcesUnavailable, Substitution, substitute

PROJECT = "amqp-client"
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ARCHIVE = "http://deb.debian.org/debian/pool/main/r/rabbitmq-java-client/rabbitmq-java-client_5.0.0.orig.tar.gz"
SHA256 = "23c185a4b241c60223e8a800472d674f3d8e8fc5688bf99abe6ccdfd55e64aeb"
APT_HELPER = Path("/usr/lib/apt/apt-helper")
TESTS = "rabbitmq-java-client-5.0.0/src/test/java"
ABSENT = ("com/rabbitmq/client/test/ssl", "com/rabbitmq/client/test/performance")
"""Not compiled: TLS, and load generators, which need more libraries."""

_HERE, _PORT = "com/rabbitmq/client/test", "compat.Report.port()"
SUBSTITUTIONS = (
    Substitution(f"{_HERE}/TestUtils.java", "new ConnectionFactory()", "compat.Report.at(new ConnectionFactory())"),
    Substitution(f"{_HERE}/functional/FrameMax.java", "new MyConnectionFactory()",
                 "compat.Report.at(new MyConnectionFactory())"),
    Substitution(f"{_HERE}/functional/FrameMax.java", "new GenerousConnectionFactory()",
                 "compat.Report.at(new GenerousConnectionFactory())"),
    Substitution(f"{_HERE}/functional/UnexpectedFrames.java", "new ConfusedConnectionFactory()",
                 "compat.Report.at(new ConfusedConnectionFactory())"),
    Substitution(f"{_HERE}/functional/ConnectionOpen.java", "AMQP.PROTOCOL.PORT", _PORT, 2),
    Substitution(f"{_HERE}/server/ChannelLimitNegotiation.java", "AMQP.PROTOCOL.PORT", _PORT),
    Substitution(f"{_HERE}/CloseInMainLoop.java", "AMQP.PROTOCOL.PORT", _PORT),
    Substitution(f"{_HERE}/functional/ConnectionRecovery.java", 'Address("127.0.0.1"), new Address("127.0.0.1", 5672)',
                 f'Address("127.0.0.1", {_PORT}), new Address("127.0.0.1", {_PORT})', 2),
)  # fmt: skip


def _run(words: list[str], what: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (f"{done.stdout}\n{done.stderr}".strip().splitlines() or ["it said nothing"])[-1]
        raise SourcesUnavailable(f"{what}: {last}")


def _compiler() -> Path:
    asked = subprocess.run([ROOT / "scripts" / "jdk.sh", "--no-install"], capture_output=True, text=True, check=False)
    if asked.returncode:
        raise SourcesUnavailable(asked.stderr.strip())
    compiler = Path(asked.stdout.strip()) / "bin" / "javac"
    if not compiler.exists():
        raise SourcesUnavailable("a JDK with a compiler is not installed.")
    return compiler


def _jars(folder: Path) -> None:
    """Fetch the libraries by Maven, and hold them against their hashes."""
    if shutil.which("mvn") is None:
        raise SourcesUnavailable("mvn is not installed (on Debian: maven).")
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}", "-Dmdep.prependGroupId=false"]
    _run(
        ["mvn", "--quiet", "--batch-mode", "--file", str(HERE / "pom.xml"), *goal], "mvn could not fetch the libraries"
    )
    known = {name: sha for sha, name in (line.split() for line in (HERE / "jars.sha256").read_text().splitlines())}
    there = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.jar")}
    if there != known:
        odd = sorted(name for name, _ in there.items() ^ known.items())
        raise SourcesUnavailable(f"the libraries are not those of jars.sha256: {', '.join(odd)}")


def fetch(folder: Path) -> Path:
    """Return a folder with the libraries in `lib` and everything compiled in `classes`. Raises SourcesUnavailable."""
    compiler = _compiler()
    if not APT_HELPER.exists():
        raise SourcesUnavailable("their source package is Debian's, and apt is not installed.")
    folder.mkdir(parents=True)
    archive = folder / "source.tar.gz"
    _run(
        [str(APT_HELPER), "download-file", ARCHIVE, str(archive), f"SHA256:{SHA256}"], f"apt could not fetch {ARCHIVE}"
    )
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    tests, classes = folder / TESTS, folder / "classes"
    for path in ABSENT:
        shutil.rmtree(tests / path)
    substitute(tests, SUBSTITUTIONS)
    _jars(folder / "lib")
    sources = [str(path) for path in (HERE / "Report.java", *sorted(tests.rglob("*.java")))]
    _run([str(compiler), "-nowarn", "-cp", f"{folder}/lib/*", "-d", str(classes), *sources], "javac")
    shutil.copy(tests.parent / "resources" / "logback-test.xml", classes)
    (classes / "config.properties").write_text("")  # the original says 5672
    return folder


def command(folder: Path, suite: str, port: int, commands: Path) -> list[str]:
    """Return the command that runs a suite of theirs; `commands` has rabbitmqctl and make."""
    said = {
        "compat.port": port, "broker.port": port, "broker.hostname": "localhost", "rabbitmq.dir": folder,
        "make.bin": commands / "make", "rabbitmqctl.bin": commands / "rabbitmqctl",
        "test-broker.A.nodename": "broker", "test-broker.A.node_port": port, "test-broker.A.config_file": "none",
    }  # fmt: skip
    java = str(_compiler().with_name("java"))
    options = [f"-D{name}={value}" for name, value in said.items()]
    return [java, *options, "-cp", f"{folder}/classes:{folder}/lib/*", "compat.Report", suite]
