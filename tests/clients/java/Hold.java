import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.AlreadyClosedException;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.ConfirmListener;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Envelope;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.SortedSet;
import java.util.TreeSet;

/** RabbitMQ's Java client as a driver: see tests/clients/drivers/common.py. java Hold.java URL HELD BESIDE COUNT SIZE WAY */
public class Hold {
    private static final SortedSet<Long> unanswered = new TreeSet<>();

    private static synchronized void tell(String key, Object value) {
        String shown = value instanceof String ? "\"" + ((String) value).replace("\"", "'") + "\"" : value.toString();
        System.out.println("{\"" + key + "\": " + shown + "}");
        System.out.flush();
    }

    /** Delivery tags count from 1, messages from 0. */
    private static synchronized void answered(String outcome, long tag, boolean multiple) {
        SortedSet<Long> meant = multiple ? unanswered.headSet(tag + 1) : unanswered.subSet(tag, tag + 1);
        for (long each : meant) tell(outcome, each - 1);
        meant.clear();
        Hold.class.notifyAll();
    }

    private static synchronized void awaitAnswers() throws InterruptedException {
        while (!unanswered.isEmpty()) Hold.class.wait();
    }

    private static synchronized void expect(long tag) {
        unanswered.add(tag);
    }

    private static void consume(Channel channel, String queue) throws IOException {
        channel.basicConsume(queue, false, new DefaultConsumer(channel) {
            @Override
            public void handleDelivery(String tag, Envelope envelope, AMQP.BasicProperties properties, byte[] body)
                    throws IOException {
                channel.basicAck(envelope.getDeliveryTag(), false);
                tell("received", Long.valueOf(new String(body, StandardCharsets.UTF_8).trim()));
            }
        });
    }

    private static void publish(Channel channel, String queue, int count, int size, boolean confirms) throws Exception {
        if (confirms) {
            channel.addConfirmListener(new ConfirmListener() {
                public void handleAck(long tag, boolean multiple) {
                    answered("confirmed", tag, multiple);
                }

                public void handleNack(long tag, boolean multiple) {
                    answered("refused", tag, multiple);
                }
            });
            channel.confirmSelect();
        }
        for (int number = 0; number < count; number++) {
            byte[] body = String.format("%-" + size + "d", number).getBytes(StandardCharsets.UTF_8);
            if (confirms) expect(channel.getNextPublishSeqNo());
            channel.basicPublish("", queue, null, body);
        }
        awaitAnswers();
        tell("done", true);
    }

    /** Whatever the broker has said about the channel has been heard when it answers this. */
    private static void awaitRefusal(Channel channel, String queue) {
        try {
            channel.queueDeclarePassive(queue);
        } catch (AlreadyClosedException | IOException closed) {
            return; // The listener tells why.
        }
    }

    public static void main(String[] words) throws Exception {
        ConnectionFactory factory = new ConnectionFactory();
        tell("version", factory.getClientProperties().get("version").toString());
        factory.setUri(words[0]);
        factory.setAutomaticRecoveryEnabled(false);
        Connection connection = factory.newConnection();
        consume(connection.createChannel(), words[2]);
        Channel channel = connection.createChannel();
        channel.addShutdownListener(cause -> {
            if (!cause.isInitiatedByApplication()) tell("failed", cause.getMessage());
        });
        Thread publishing = new Thread(() -> {
            try {
                publish(channel, words[1], Integer.parseInt(words[3]), Integer.parseInt(words[4]), words[5].equals("confirms"));
            } catch (AlreadyClosedException closed) {
                return; // The listener has told why.
            } catch (Exception failure) {
                tell("failed", failure.toString());
            }
        });
        publishing.setDaemon(true);
        publishing.start();
        while (System.in.read() >= 0) continue;
        awaitRefusal(channel, words[1]);
        connection.close();
    }
}
