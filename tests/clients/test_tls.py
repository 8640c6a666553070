"""Other people's clients by TLS, each with the authority that it trusts: one broker for all of them."""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import aio_pika
import kombu
import pika
import pytest
from celery import Celery

from tests.clients.test_node import FOLDER
from tests.support.brokers import PATIENCE, BrokerProcess
from tests.support.certificates import SETTINGS, Authority, serving_tls
from tests.support.client_hold import JARS, java_compiles
from tests.support.pika_helpers import declare

pytestmark = pytest.mark.clients

WITH_VERSION = SETTINGS.replace("[tls]", 'rabbitmq-version = "4.2.0"\n\n[tls]')
"""RabbitMQ's client of AMQP 1.0 refuses to work with another product."""


@pytest.fixture(scope="module")
def broker(authority: Authority) -> Iterator[BrokerProcess]:
    with serving_tls(authority.folder, WITH_VERSION) as process:
        yield process
        assert "Traceback" not in process.log()


def test_pika_by_tls_publishes_and_gets(broker: BrokerProcess, authority: Authority, name: str) -> None:
    options = pika.SSLOptions(authority.trusting("client"), "localhost")
    where = pika.ConnectionParameters("localhost", broker.tls_port, ssl_options=options)
    with pika.BlockingConnection(where) as connection:
        channel = connection.channel()
        channel.queue_declare(name)
        channel.confirm_delivery()
        for size in (0, 1, 16_384, 1_000_000):
            channel.basic_publish("", name, bytes(size))
            _, _, body = channel.basic_get(name, auto_ack=True)
            assert body == bytes(size)
        channel.queue_delete(name)


async def test_aio_pika_by_tls_publishes_and_gets(broker: BrokerProcess, authority: Authority, name: str) -> None:
    connection = await aio_pika.connect(broker.tls_url, ssl_context=authority.trusting())
    async with connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(name, auto_delete=True)
        await channel.default_exchange.publish(aio_pika.Message(bytes(100_000)), name)
        message = await queue.get(timeout=PATIENCE)
        assert message.body == bytes(100_000)
        await message.ack()


def test_kombu_by_tls_publishes_and_gets(broker: BrokerProcess, authority: Authority, name: str) -> None:
    options = {"ca_certs": str(authority.ca), "cert_reqs": ssl.CERT_REQUIRED, "server_hostname": "localhost"}
    with kombu.Connection(broker.tls_url, ssl=options) as connection:
        queue = connection.SimpleQueue(name)
        queue.put({"number": 7})
        message = queue.get(timeout=PATIENCE)
        assert message.payload == {"number": 7}
        message.ack()
        queue.close()


def test_celery_by_tls_sends_a_task(broker: BrokerProcess, authority: Authority, name: str) -> None:
    """The worker's side is kombu's as well; what is checked is that Celery's own setting reaches it."""
    app = Celery("tls", broker=broker.tls_url)
    app.conf.broker_use_ssl = {
        "ca_certs": str(authority.ca),
        "cert_reqs": ssl.CERT_REQUIRED,
        "keyfile": str(authority.key("client")),
        "certfile": str(authority.folder / "client.pem"),
    }
    with app.connection_for_write() as connection:
        app.send_task("square", args=[7], queue=name, connection=connection)
        message = connection.SimpleQueue(name).get(timeout=PATIENCE)
        assert message.payload[0] == [7]
        message.ack()
    app.close()


NODE = """
const amqp = require("amqplib");
const fs = require("fs");
const [url, ca, name] = process.argv.slice(1);
(async () => {
  const connection = await amqp.connect(url, { ca: [fs.readFileSync(ca)] });
  const channel = await connection.createConfirmChannel();
  await channel.assertQueue(name, { autoDelete: true });
  channel.sendToQueue(name, Buffer.alloc(100000));
  await channel.waitForConfirms();
  const got = await channel.get(name, { noAck: true });
  console.log(JSON.stringify({ size: got.content.length }));
  await connection.close();
})();
"""


def test_amqplib_by_tls_publishes_and_gets(broker: BrokerProcess, authority: Authority, name: str) -> None:
    node = shutil.which("node")
    if node is None or not (FOLDER / "node_modules" / "amqplib").is_dir():
        pytest.skip("node or amqplib is not installed")
    words = [node, "-e", NODE, broker.tls_url, str(authority.ca), name]
    done = subprocess.run(words, cwd=FOLDER, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"size": 100_000}


JAVA = """
import com.rabbitmq.client.*;
import java.io.FileInputStream;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import javax.net.ssl.*;

public class Tls {
    public static void main(String[] words) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        CertificateFactory certificates = CertificateFactory.getInstance("X.509");
        store.setCertificateEntry("ca", certificates.generateCertificate(new FileInputStream(words[1])));
        TrustManagerFactory trust = TrustManagerFactory.getInstance("PKIX");
        trust.init(store);
        SSLContext context = SSLContext.getInstance("TLSv1.3");
        context.init(null, trust.getTrustManagers(), null);
        ConnectionFactory factory = new ConnectionFactory();
        factory.setHost("localhost");
        factory.setPort(Integer.parseInt(words[0]));
        factory.useSslProtocol(context);
        Connection connection = factory.newConnection();
        Channel channel = connection.createChannel();
        channel.queueDeclare(words[2], false, false, true, null);
        channel.confirmSelect();
        channel.basicPublish("", words[2], null, new byte[100000]);
        channel.waitForConfirmsOrDie(60000);
        System.out.println(channel.basicGet(words[2], true).getBody().length);
        connection.close();
    }
}
"""


def test_java_client_by_tls_publishes_and_gets(
    broker: BrokerProcess, authority: Authority, tmp_path: Path, name: str
) -> None:
    if not java_compiles() or not all(jar.exists() for jar in JARS):
        pytest.skip("a JDK or RabbitMQ's Java client is not installed")
    program = tmp_path / "Tls.java"
    program.write_text(JAVA)
    words = ["java", "-Xmx64m", "-XX:TieredStopAtLevel=1", "-cp", os.pathsep.join(map(str, JARS)), str(program)]
    words += [str(broker.tls_port), str(authority.ca), name]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (0, "100000\n"), done.stderr


def test_proton_by_tls_sends_and_receives(broker: BrokerProcess, authority: Authority, name: str) -> None:
    proton = pytest.importorskip("proton", reason="python-qpid-proton is not installed: there was no C compiler")
    from proton.utils import BlockingConnection

    declare(broker, name, x_expires=600_000)
    domain = proton.SSLDomain(proton.SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(str(authority.ca))
    domain.set_peer_authentication(proton.SSLDomain.VERIFY_PEER_NAME)
    connection = BlockingConnection(broker.tls_url.rstrip("/"), timeout=PATIENCE, ssl_domain=domain)
    connection.create_sender(name).send(proton.Message(body="by TLS"))
    receiver = connection.create_receiver(name, credit=1)
    assert receiver.receive(PATIENCE).body == "by TLS"
    receiver.accept()
    connection.close()


def test_proton_logs_in_by_its_certificate(broker: BrokerProcess, authority: Authority, name: str) -> None:
    """The certificate `visitor` names the user guest (mechanism EXTERNAL)."""
    proton = pytest.importorskip("proton", reason="python-qpid-proton is not installed: there was no C compiler")
    from proton.utils import BlockingConnection

    declare(broker, name, x_expires=600_000)
    certificate = authority.issue("visitor", "guest@example.org", common_name="guest")
    domain = proton.SSLDomain(proton.SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(str(authority.ca))
    domain.set_credentials(str(certificate), str(authority.key("visitor")), "")
    domain.set_peer_authentication(proton.SSLDomain.VERIFY_PEER_NAME)
    connection = BlockingConnection(
        f"amqps://localhost:{broker.tls_port}", timeout=PATIENCE, ssl_domain=domain, allowed_mechs="EXTERNAL"
    )
    connection.create_sender(name).send(proton.Message(body="by name"))
    connection.close()


def test_rabbitmqs_client_of_amqp_10_by_tls_sends(broker: BrokerProcess, authority: Authority, name: str) -> None:
    client = pytest.importorskip("rabbitmq_amqp_python_client", reason="Qpid Proton could not be built")
    context = client.PosixSslConfigurationContext(ca_cert=str(authority.ca))
    environment = client.Environment(uri=broker.tls_url.rstrip("/"), ssl_context=context)
    connection = environment.connection()
    connection.dial()
    management = connection.management()
    management.declare_queue(client.ClassicQueueSpecification(name=name))
    publisher = connection.publisher(client.AddressHelper.queue_address(name))
    status = publisher.publish(client.Message(body=b"by TLS", inferred=True))
    assert status.remote_state == client.OutcomeState.ACCEPTED
    publisher.close()
    assert management.purge_queue(name) == 1
    environment.close()
