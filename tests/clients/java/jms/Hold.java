// Qpid JMS as a driver: see tests/clients/drivers/common.py. Usage: java Hold.java URL HELD BESIDE COUNT SIZE WAY

import jakarta.jms.*;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import org.apache.qpid.jms.JmsConnectionFactory;

public class Hold {
    static synchronized void tell(String kind, Object value) {
        System.out.println("{\"" + kind + "\": " + (value instanceof String ? "\"" + value + "\"" : value) + "}");
    }

    static final CountDownLatch ARRIVED = new CountDownLatch(1);

    static void publish(Session session, String queue, int count, int size, boolean idle) throws Exception {
        MessageProducer producer = session.createProducer(session.createQueue(queue));
        for (int number = 0; number < count; number++) {
            if (number == 1 && idle) ARRIVED.await();
            BytesMessage message = session.createBytesMessage();
            message.writeBytes(String.format("%-" + size + "d", number).getBytes(StandardCharsets.UTF_8));
            producer.send(message);  // Waits for credit, and for the outcome.
            tell("confirmed", number);
        }
        tell("done", true);
    }

    public static void main(String[] words) throws Exception {
        tell("version", org.apache.qpid.jms.util.MetaDataSupport.PROVIDER_VERSION);
        String server = words[0].substring(words[0].indexOf('@') + 1, words[0].lastIndexOf('/'));
        JmsConnectionFactory factory = new JmsConnectionFactory("guest", "guest", "amqp://" + server);
        Connection connection = factory.createConnection();
        connection.setExceptionListener(failure -> tell("failed", failure.toString()));
        Session consuming = connection.createSession();
        consuming.createConsumer(consuming.createQueue(words[2])).setMessageListener(message -> {
            try {
                BytesMessage bytes = (BytesMessage) message;
                byte[] body = new byte[(int) bytes.getBodyLength()];
                bytes.readBytes(body);
                tell("received", Long.valueOf(new String(body, StandardCharsets.UTF_8).trim()));
                ARRIVED.countDown();
            } catch (JMSException failure) {
                tell("failed", failure.toString());
            }
        });
        connection.start();
        Session session = connection.createSession();
        Thread publishing = new Thread(() -> {
            try {
                publish(session, words[1], Integer.parseInt(words[3]), Integer.parseInt(words[4]), words[5].equals("idle"));
            } catch (Exception failure) {
                tell("failed", failure.toString());
            }
        });
        publishing.setDaemon(true);
        publishing.start();
        while (System.in.read() >= 0) continue;
        connection.close();
    }
}
