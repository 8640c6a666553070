import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.AlreadyClosedException;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.Envelope;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.Recoverable;
import com.rabbitmq.client.RecoveryListener;
import com.rabbitmq.client.RpcClient;
import com.rabbitmq.client.RpcServer;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** What programs in Java rely on: prints a line of JSON for each check. Usage: java Checks.java URL */
public class Checks {
    private static final int LIMIT = 10;
    private static String url;

    private interface Check {
        void run(Connection connection) throws Exception;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] body) {
        return new String(body, StandardCharsets.UTF_8);
    }

    private static void same(Object expected, Object found) {
        if (!expected.equals(found)) throw new AssertionError("expected " + expected + ", found " + found);
    }

    private static String own(Channel channel, Map<String, Object> arguments) throws IOException {
        return channel.queueDeclare("", false, true, true, arguments).getQueue();
    }

    private static ConnectionFactory factory() throws Exception {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(url);
        factory.setNetworkRecoveryInterval(100);
        return factory;
    }

    private static int code(ShutdownSignalException signal) {
        Object reason = signal.getReason();
        return reason instanceof AMQP.Channel.Close
            ? ((AMQP.Channel.Close) reason).getReplyCode()
            : ((AMQP.Connection.Close) reason).getReplyCode();
    }

    private static void check(String name, Check check) throws Exception {
        Connection connection = factory().newConnection();
        String why = null;
        try {
            check.run(connection);
        } catch (Throwable failure) {
            why = String.valueOf(failure);
        }
        String end = why == null ? "true" : "false, \"why\": \"" + why.replaceAll("[\"\\\\\n]", "'") + "\"";
        System.out.println("{\"check\": \"" + name + "\", \"passed\": " + end + "}");
        connection.abort(2000);
    }

    private static void confirmsAndReturns(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        List<String> events = Collections.synchronizedList(new ArrayList<>());
        channel.addReturnListener((code, why, exchange, key, properties, body) -> events.add("returned " + code));
        channel.addConfirmListener((tag, multiple) -> events.add("confirmed"), (tag, multiple) -> events.add("refused"));
        channel.confirmSelect();
        channel.basicPublish("", UUID.randomUUID().toString(), true, null, bytes("x"));
        channel.waitForConfirmsOrDie(LIMIT * 1000);
        same(Arrays.asList("returned 312", "confirmed"), events);
    }

    private static void manyConfirms(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        String queue = own(channel, null);
        channel.confirmSelect();
        for (int number = 0; number < 1000; number++) channel.basicPublish("", queue, null, bytes("x"));
        channel.waitForConfirmsOrDie(LIMIT * 1000);
        same(1000L, channel.messageCount(queue));
    }

    private static void prefetchAndRedelivery(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        String queue = own(channel, null);
        for (int number = 0; number < 5; number++) channel.basicPublish("", queue, null, bytes("" + number));
        channel.basicQos(2);
        BlockingQueue<Delivery> got = new LinkedBlockingQueue<>();
        String tag = channel.basicConsume(queue, false, (name, delivery) -> got.add(delivery), name -> { });
        Delivery first = got.poll(LIMIT, TimeUnit.SECONDS);
        Delivery second = got.poll(LIMIT, TimeUnit.SECONDS);
        same(3L, channel.messageCount(queue));
        channel.basicNack(second.getEnvelope().getDeliveryTag(), true, true);
        List<String> order = new ArrayList<>();
        for (int number = 0; number < 5; number++) {
            Delivery next = got.poll(LIMIT, TimeUnit.SECONDS);
            order.add(text(next.getBody()) + (next.getEnvelope().isRedeliver() ? "r" : ""));
            channel.basicAck(next.getEnvelope().getDeliveryTag(), false);
        }
        same("0", text(first.getBody()));
        same(Arrays.asList("0r", "1r", "2", "3", "4"), order);
        channel.basicCancel(tag);
    }

    private static void rpc(Connection connection) throws Exception {
        Channel serving = connection.createChannel();
        String queue = own(serving, null);
        RpcServer server = new RpcServer(serving, queue) {
            @Override
            public byte[] handleCall(Delivery request, AMQP.BasicProperties properties) {
                return bytes(text(request.getBody()).toUpperCase());
            }
        };
        Thread thread = new Thread(() -> {
            try {
                server.mainloop();
            } catch (IOException | ShutdownSignalException ended) {
                return;
            }
        });
        thread.setDaemon(true);
        thread.start();
        RpcClient client = new RpcClient(connection.createChannel(), "", queue, LIMIT * 1000);
        same("SHOUT", client.stringCall("shout"));
        client.close();
        server.terminateMainloop();
    }

    private static void deadLetters(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        String dead = own(channel, null);
        Map<String, Object> arguments = new HashMap<>();
        arguments.put("x-dead-letter-exchange", "");
        arguments.put("x-dead-letter-routing-key", dead);
        arguments.put("x-message-ttl", 50);
        String queue = own(channel, arguments);
        channel.basicPublish("", queue, null, bytes("old"));
        BlockingQueue<Delivery> got = new LinkedBlockingQueue<>();
        channel.basicConsume(dead, true, (name, delivery) -> got.add(delivery), name -> { });
        Delivery letter = got.poll(LIMIT, TimeUnit.SECONDS);
        List<?> deaths = (List<?>) letter.getProperties().getHeaders().get("x-death");
        same("expired", ((Map<?, ?>) deaths.get(0)).get("reason").toString());
        same(1L, ((Map<?, ?>) deaths.get(0)).get("count"));
    }

    private static void consumerCancelled(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        String queue = channel.queueDeclare("java-" + UUID.randomUUID(), false, false, false, null).getQueue();
        CountDownLatch told = new CountDownLatch(1);
        channel.basicConsume(queue, false, (name, delivery) -> { }, name -> told.countDown());
        connection.createChannel().queueDelete(queue);
        same(true, told.await(LIMIT, TimeUnit.SECONDS));
    }

    private static void errors(Connection connection) throws Exception {
        List<Integer> codes = new ArrayList<>();
        List<Check> wrong = Arrays.asList(
            with -> with.createChannel().queueDeclarePassive("no-such-queue"),
            with -> with.createChannel().queueDeclare("amq.mine", false, false, false, null),
            with -> with.createChannel().exchangeDeclare("amq.direct", "fanout"),
            with -> with.createChannel().queueBind("no-such-queue", "amq.direct", "")
        );
        for (Check each : wrong) {
            try {
                each.run(connection);
            } catch (IOException failure) {
                codes.add(code((ShutdownSignalException) failure.getCause()));
            }
        }
        same(Arrays.asList(404, 403, 406, 404), codes);
        same(true, connection.isOpen());
    }

    private static void unknownTag(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        BlockingQueue<Integer> codes = new LinkedBlockingQueue<>();
        channel.addShutdownListener(cause -> codes.add(code(cause)));
        channel.basicAck(99, false);
        same(406, codes.poll(LIMIT, TimeUnit.SECONDS));
        try {
            channel.queueDeclare();
            throw new AssertionError("the channel is open");
        } catch (AlreadyClosedException closed) {
            same(true, connection.isOpen());
        }
    }

    private static void transactions(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        String queue = own(channel, null);
        channel.txSelect();
        channel.basicPublish("", queue, null, bytes("dropped"));
        channel.txRollback();
        channel.basicPublish("", queue, null, bytes("kept"));
        channel.txCommit();
        GetResponse got = channel.basicGet(queue, true);
        same("kept", text(got.getBody()));
        same(0, got.getMessageCount());
    }

    private static void headers(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        String queue = own(channel, null);
        Map<String, Object> headers = new HashMap<>();
        headers.put("long", 1L << 40);
        headers.put("int", -7);
        headers.put("double", 1.5);
        headers.put("yes", true);
        headers.put("list", Arrays.asList(1, 2L));
        headers.put("table", Collections.singletonMap("a", 1));
        headers.put("octets", new byte[] {0, -1});
        headers.put("decimal", new java.math.BigDecimal("12.34"));
        headers.put("date", new java.util.Date(1700000000000L));
        AMQP.BasicProperties properties = new AMQP.BasicProperties.Builder().headers(headers).build();
        channel.basicPublish("", queue, properties, bytes("x"));
        GetResponse got = channel.basicGet(queue, true);
        Map<String, Object> found = new HashMap<>(got.getProps().getHeaders());
        same(true, Arrays.equals((byte[]) found.remove("octets"), (byte[]) headers.remove("octets")));
        same(headers, found);
    }

    private static void recovery(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        String queue = own(channel, null);
        BlockingQueue<String> got = new LinkedBlockingQueue<>();
        channel.basicConsume(queue, true, new DefaultConsumer(channel) {
            @Override
            public void handleDelivery(String tag, Envelope envelope, AMQP.BasicProperties properties, byte[] body) {
                got.add(text(body));
            }
        });
        CountDownLatch back = new CountDownLatch(1);
        ((Recoverable) connection).addRecoveryListener(new RecoveryListener() {
            public void handleRecovery(Recoverable recovered) {
                back.countDown();
            }

            public void handleRecoveryStarted(Recoverable recovering) { }
        });
        // A frame that no channel may send ends the connection by the broker; the client recovers from that.
        BlockingQueue<String> names = new LinkedBlockingQueue<>();
        ((com.rabbitmq.client.impl.recovery.AutorecoveringConnection) connection)
            .addQueueRecoveryListener((before, after) -> names.add(after));
        Channel other = connection.createChannel();
        try {
            other.basicPublish("", queue, true, true, null, bytes("immediate is not implemented: 540"));
        } catch (IOException | AlreadyClosedException gone) {
            same(false, connection.isOpen());
        }
        same(true, back.await(LIMIT, TimeUnit.SECONDS));
        String now = names.poll(LIMIT, TimeUnit.SECONDS);
        connection.createChannel().basicPublish("", now, null, bytes("after"));
        same("after", got.poll(LIMIT, TimeUnit.SECONDS));
    }

    public static void main(String[] words) throws Exception {
        url = words[0];
        check("a message is returned before it is confirmed", Checks::confirmsAndReturns);
        check("a thousand confirms", Checks::manyConfirms);
        check("prefetch and redelivery in order", Checks::prefetchAndRedelivery);
        check("rpc", Checks::rpc);
        check("dead letters", Checks::deadLetters);
        check("a consumer is told that its queue is gone", Checks::consumerCancelled);
        check("errors close the channel only", Checks::errors);
        check("an unknown tag closes the channel", Checks::unknownTag);
        check("transactions", Checks::transactions);
        check("headers of all types", Checks::headers);
        check("recovery after the broker has closed the connection", Checks::recovery);
        System.exit(0);
    }
}
