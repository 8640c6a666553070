import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import com.rabbitmq.client.BlockedListener;
import com.rabbitmq.client.ConnectionFactory;
import java.io.IOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.slf4j.LoggerFactory;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory;
import org.springframework.amqp.rabbit.connection.CorrelationData;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.amqp.rabbit.listener.SimpleMessageListenerContainer;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.rabbitmq.OutboundMessage;
import reactor.rabbitmq.RabbitFlux;
import reactor.rabbitmq.Receiver;
import reactor.rabbitmq.ReceiverOptions;
import reactor.rabbitmq.Sender;
import reactor.rabbitmq.SenderOptions;
import reactor.rabbitmq.Utils;

/**
 * Spring AMQP and reactor-rabbitmq as drivers: see tests/clients/drivers/common.py. Each consumes and publishes on one
 * connection. java Hold.java spring|reactor URL HELD BESIDE COUNT SIZE WAY
 */
public class Hold {
    private final String url;
    private final String held;
    private final String beside;
    private final int count;
    private final int size;

    Hold(String[] words) {
        url = words[1];
        held = words[2];
        beside = words[3];
        count = Integer.parseInt(words[4]);
        size = Integer.parseInt(words[5]);
    }

    private static synchronized void tell(String key, Object value) {
        String shown = value instanceof String ? "\"" + ((String) value).replace("\"", "'") + "\"" : value.toString();
        System.out.println("{\"" + key + "\": " + shown + "}");
        System.out.flush();
    }

    /** Tells the version of the jar that has a class, by the jar's name. */
    private static void version(Class<?> type) throws Exception {
        String jar = type.getProtectionDomain().getCodeSource().getLocation().getPath();
        tell("version", jar.replaceAll(".*-([0-9][0-9.]*)\\.jar", "$1"));
    }

    private static final BlockedListener BLOCKED = new BlockedListener() {
        public void handleBlocked(String reason) {
            tell("blocked", reason);
        }

        public void handleUnblocked() {
            tell("unblocked", true);
        }
    };

    private static void received(byte[] body) {
        tell("received", Long.valueOf(new String(body, StandardCharsets.UTF_8).trim()));
    }

    private byte[] body(int number) {
        return String.format("%-" + size + "d", number).getBytes(StandardCharsets.UTF_8);
    }

    private static void answered(int number, boolean confirmed) {
        tell(confirmed ? "confirmed" : "refused", number);
    }

    private static void untilAskedToLeave() throws IOException {
        while (System.in.read() >= 0) continue;
    }

    private void spring() throws Exception {
        version(RabbitTemplate.class);
        CachingConnectionFactory factory = new CachingConnectionFactory(new URI(url));
        factory.setPublisherConfirmType(CachingConnectionFactory.ConfirmType.CORRELATED);
        factory.createConnection().addBlockedListener(BLOCKED);
        SimpleMessageListenerContainer listening = new SimpleMessageListenerContainer(factory);
        listening.setQueueNames(beside);
        listening.setMessageListener(message -> received(message.getBody()));
        listening.start();
        Thread publishing = new Thread(() -> springPublish(new RabbitTemplate(factory)));
        publishing.setDaemon(true);
        publishing.start();
        untilAskedToLeave();
        listening.stop();
        factory.destroy();
    }

    /** All go through one channel, in order; each confirmation is a future. */
    private void springPublish(RabbitTemplate template) {
        List<CompletableFuture<Void>> answers = new ArrayList<>();
        template.invoke(operations -> {
            for (int n = 0; n < count; n++) {
                int number = n;
                CorrelationData correlation = new CorrelationData(String.valueOf(number));
                operations.convertAndSend("", held, body(number), message -> message, correlation);
                answers.add(correlation.getFuture().thenAccept(confirm -> answered(number, confirm.ack())));
            }
            CompletableFuture.allOf(answers.toArray(new CompletableFuture<?>[0])).join();
            return null;
        });
        tell("done", true);
    }

    private void reactor() throws Exception {
        version(RabbitFlux.class);
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(url);
        factory.useNio();
        Mono<? extends com.rabbitmq.client.Connection> one = Utils.singleConnectionMono(() -> {
            com.rabbitmq.client.Connection connection = factory.newConnection();
            connection.addBlockedListener(BLOCKED);
            return connection;
        });
        Receiver receiver = RabbitFlux.createReceiver(new ReceiverOptions().connectionMono(one));
        Sender sender = RabbitFlux.createSender(new SenderOptions().connectionMono(one));
        receiver.consumeAutoAck(beside).subscribe(delivery -> received(delivery.getBody()));
        Flux<OutboundMessage> messages = Flux.range(0, count).map(number -> new OutboundMessage("", held, body(number)));
        sender.sendWithPublishConfirms(messages).doOnComplete(() -> tell("done", true)).subscribe(
            result -> answered(
                Integer.parseInt(new String(result.getOutboundMessage().getBody(), StandardCharsets.UTF_8).trim()),
                result.isAck()),
            failure -> tell("failed", failure.toString()));
        untilAskedToLeave();
        one.block(Duration.ofSeconds(10)).close(10_000);
    }

    public static void main(String[] words) throws Exception {
        ((Logger) LoggerFactory.getLogger(Logger.ROOT_LOGGER_NAME)).setLevel(Level.OFF); // It would write to our output.
        Hold hold = new Hold(words);
        if (words[0].equals("spring")) hold.spring();
        else hold.reactor();
        System.exit(0); // Schedulers of both go on otherwise.
    }
}
