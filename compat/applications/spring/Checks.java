import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.slf4j.LoggerFactory;
import org.springframework.amqp.AmqpException;
import org.springframework.amqp.AmqpRejectAndDontRequeueException;
import org.springframework.amqp.core.AcknowledgeMode;
import org.springframework.amqp.core.Binding;
import org.springframework.amqp.core.BindingBuilder;
import org.springframework.amqp.core.Message;
import org.springframework.amqp.core.MessageListener;
import org.springframework.amqp.core.Queue;
import org.springframework.amqp.core.QueueBuilder;
import org.springframework.amqp.core.TopicExchange;
import org.springframework.amqp.rabbit.batch.SimpleBatchingStrategy;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory;
import org.springframework.amqp.rabbit.connection.CorrelationData;
import org.springframework.amqp.rabbit.core.BatchingRabbitTemplate;
import org.springframework.amqp.rabbit.core.RabbitAdmin;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.amqp.rabbit.listener.DirectMessageListenerContainer;
import org.springframework.amqp.rabbit.listener.AbstractMessageListenerContainer;
import org.springframework.amqp.rabbit.listener.SimpleMessageListenerContainer;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;
import reactor.core.publisher.Flux;
import reactor.rabbitmq.OutboundMessage;
import reactor.rabbitmq.OutboundMessageResult;
import reactor.rabbitmq.QueueSpecification;
import reactor.rabbitmq.RabbitFlux;
import reactor.rabbitmq.Receiver;
import reactor.rabbitmq.ReceiverOptions;
import reactor.rabbitmq.Sender;
import reactor.rabbitmq.SenderOptions;

/** Spring AMQP and reactor-rabbitmq: prints a line of JSON for each check. Usage: java Checks.java URL */
public class Checks {
    private static final int LIMIT = 10; // seconds
    private static String url;

    /** What a check of Spring works with. */
    private record Scene(CachingConnectionFactory factory, RabbitAdmin admin, RabbitTemplate template) { }

    private interface Check {
        void run(Scene scene) throws Exception;
    }

    private static void check(String name, Check check) throws Exception {
        CachingConnectionFactory factory = new CachingConnectionFactory(new URI(url));
        factory.setPublisherConfirmType(CachingConnectionFactory.ConfirmType.CORRELATED);
        factory.setPublisherReturns(true);
        String failed = null;
        try {
            RabbitTemplate template = new RabbitTemplate(factory);
            template.setReceiveTimeout(LIMIT * 1000);
            template.setReplyTimeout(LIMIT * 1000);
            check.run(new Scene(factory, new RabbitAdmin(factory), template));
        } catch (Exception | AssertionError failure) {
            failed = String.valueOf(failure).replaceAll("[\"\\\\\\n]", "'");
        }
        factory.destroy();
        String end = failed == null ? "true}" : "false, \"why\": \"" + failed + "\"}";
        System.out.println("{\"check\": \"" + name + "\", \"passed\": " + end);
    }

    private static void same(Object expected, Object found) {
        if (!expected.equals(found)) throw new AssertionError("expected " + expected + ", found " + found);
    }

    private static <T> T next(BlockingQueue<T> got) throws InterruptedException {
        T found = got.poll(LIMIT, TimeUnit.SECONDS);
        if (found == null) throw new AssertionError("nothing came for " + LIMIT + " s");
        return found;
    }

    private static String some() {
        return "spring-" + UUID.randomUUID();
    }

    private static String own(Scene scene) {
        return scene.admin.declareQueue(QueueBuilder.nonDurable(some()).autoDelete().build());
    }

    private static String text(Message message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    private static <C extends AbstractMessageListenerContainer> C listen(C container, String queue, MessageListener to) {
        container.setQueueNames(queue);
        container.setMessageListener(to);
        container.afterPropertiesSet();
        container.start();
        return container;
    }

    private static void declarations(Scene scene) throws Exception {
        TopicExchange exchange = new TopicExchange(some(), false, true);
        Queue queue = QueueBuilder.durable(some()).quorum().deliveryLimit(3).build();
        scene.admin.declareExchange(exchange);
        scene.admin.declareQueue(queue);
        Binding binding = BindingBuilder.bind(queue).to(exchange).with("orders.#");
        scene.admin.declareBinding(binding);
        scene.template.convertAndSend(exchange.getName(), "orders.new", "one");
        same("one", scene.template.receiveAndConvert(queue.getName()));
        same(0L, scene.admin.getQueueInfo(queue.getName()).getMessageCount());
        scene.admin.removeBinding(binding);
        scene.admin.deleteQueue(queue.getName());
        same(true, scene.admin.getQueueInfo(queue.getName()) == null);
        scene.admin.deleteExchange(exchange.getName());
    }

    private static void confirms(Scene scene) throws Exception {
        String queue = own(scene);
        List<CompletableFuture<CorrelationData.Confirm>> futures = new ArrayList<>();
        for (int n = 0; n < 100; n++) {
            CorrelationData data = new CorrelationData("c" + n);
            scene.template.convertAndSend("", queue, "message " + n, data);
            futures.add(data.getFuture());
        }
        for (CompletableFuture<CorrelationData.Confirm> each : futures) same(true, each.get(LIMIT, TimeUnit.SECONDS).ack());
        same(100, scene.admin.purgeQueue(queue));
    }

    private static void returns(Scene scene) throws Exception {
        scene.template.setMandatory(true);
        CorrelationData data = new CorrelationData("r");
        scene.template.convertAndSend("", some(), "nobody", data);
        same(true, data.getFuture().get(LIMIT, TimeUnit.SECONDS).ack());
        same(312, data.getReturned().getReplyCode());
    }

    private static void refusals(Scene scene) throws Exception {
        String queue = scene.admin.declareQueue(QueueBuilder.nonDurable(some()).autoDelete()
            .maxLength(1L).overflow(QueueBuilder.Overflow.rejectPublish).build());
        CorrelationData first = new CorrelationData("1");
        scene.template.convertAndSend("", queue, "fits", first);
        same(true, first.getFuture().get(LIMIT, TimeUnit.SECONDS).ack());
        CorrelationData second = new CorrelationData("2");
        scene.template.convertAndSend("", queue, "does not", second);
        same(false, second.getFuture().get(LIMIT, TimeUnit.SECONDS).ack());
    }

    private static void deadLetters(Scene scene) throws Exception {
        String dead = own(scene);
        String queue = scene.admin.declareQueue(QueueBuilder.nonDurable(some()).autoDelete()
            .deadLetterExchange("").deadLetterRoutingKey(dead).build());
        SimpleMessageListenerContainer container = listen(new SimpleMessageListenerContainer(scene.factory), queue, message -> {
            throw new AmqpRejectAndDontRequeueException("no");
        });
        scene.template.convertAndSend("", queue, "bad");
        Message message = scene.template.receive(dead);
        container.stop();
        same("bad", text(message));
        same("rejected", ((List<Map<String, Object>>) message.getMessageProperties().getHeader("x-death")).get(0).get("reason"));
    }

    private static void requeues(Scene scene) throws Exception {
        String queue = own(scene);
        BlockingQueue<Boolean> seen = new LinkedBlockingQueue<>();
        DirectMessageListenerContainer container = listen(new DirectMessageListenerContainer(scene.factory), queue, message -> {
            boolean again = message.getMessageProperties().isRedelivered();
            seen.add(again);
            if (!again) throw new IllegalStateException("once");
        });
        scene.template.convertAndSend("", queue, "x");
        same(false, next(seen));
        same(true, next(seen));
        container.stop();
    }

    private static void replies(Scene scene) throws Exception {
        String queue = own(scene);
        SimpleMessageListenerContainer container = new SimpleMessageListenerContainer(scene.factory);
        container.setAcknowledgeMode(AcknowledgeMode.AUTO);
        listen(container, queue, message -> scene.template.convertAndSend(
            message.getMessageProperties().getReplyTo(), (Object) text(message).toUpperCase(), reply -> {
                reply.getMessageProperties().setCorrelationId(message.getMessageProperties().getCorrelationId());
                return reply;
            }));
        RabbitTemplate asking = new RabbitTemplate(scene.factory);
        asking.setReplyTimeout(LIMIT * 1000);
        for (int n = 0; n < 20; n++) same("ASK " + n, asking.convertSendAndReceive("", queue, "ask " + n));
        container.stop();
        asking.stop();
    }

    private static void transactions(Scene scene) throws Exception {
        CachingConnectionFactory factory = new CachingConnectionFactory(new URI(url));
        RabbitTemplate template = new RabbitTemplate(factory);
        template.setChannelTransacted(true);
        String queue = own(scene);
        for (int n = 0; n < 3; n++) template.convertAndSend("", queue, "sent " + n); // each in a transaction of its own
        same("sent 0", template.receiveAndConvert(queue)); // by basic.get: the queue goes with its last consumer
        same(2, scene.admin.purgeQueue(queue));
        factory.destroy();
    }

    private static void batches(Scene scene) throws Exception {
        String queue = own(scene);
        ThreadPoolTaskScheduler scheduler = new ThreadPoolTaskScheduler();
        scheduler.afterPropertiesSet();
        BatchingRabbitTemplate batching =
            new BatchingRabbitTemplate(scene.factory, new SimpleBatchingStrategy(10, 100_000, 1000), scheduler);
        for (int n = 0; n < 10; n++) batching.convertAndSend("", queue, "part " + n);
        BlockingQueue<String> got = new LinkedBlockingQueue<>();
        SimpleMessageListenerContainer container =
            listen(new SimpleMessageListenerContainer(scene.factory), queue, message -> got.add(text(message)));
        for (int n = 0; n < 10; n++) same("part " + n, next(got));
        container.stop();
        scheduler.shutdown();
    }

    private static void listenerOfMissingQueue(Scene scene) throws Exception {
        String queue = some();
        BlockingQueue<String> got = new LinkedBlockingQueue<>();
        SimpleMessageListenerContainer container = new SimpleMessageListenerContainer(scene.factory);
        container.setMissingQueuesFatal(false);
        container.setRecoveryInterval(100);
        container.setRetryDeclarationInterval(100);
        container.setFailedDeclarationRetryInterval(100);
        listen(container, queue, message -> got.add(text(message)));
        scene.admin.declareQueue(new Queue(queue, false, false, false));
        scene.template.convertAndSend("", queue, "late");
        same("late", next(got));
        container.stop();
        scene.admin.deleteQueue(queue);
    }

    private static void unequalDeclaration(Scene scene) {
        String queue = own(scene);
        try {
            scene.admin.declareQueue(QueueBuilder.nonDurable(queue).autoDelete().ttl(1000).build());
            throw new AssertionError("the declaration passed");
        } catch (AmqpException refused) {
            same(true, String.valueOf(refused.getCause()).contains("reply-code=406")
                || String.valueOf(refused.getCause().getCause()).contains("reply-code=406"));
        }
    }

    private static void reactorConfirms(Scene scene) throws Exception {
        com.rabbitmq.client.ConnectionFactory factory = new com.rabbitmq.client.ConnectionFactory();
        factory.setUri(url);
        try (Sender sender = RabbitFlux.createSender(new SenderOptions().connectionFactory(factory));
                Receiver receiver = RabbitFlux.createReceiver(new ReceiverOptions().connectionFactory(factory))) {
            String queue = some();
            sender.declare(QueueSpecification.queue(queue)).block();
            Flux<OutboundMessage> messages = Flux.range(0, 200)
                .map(n -> new OutboundMessage("", queue, ("m" + n).getBytes(StandardCharsets.UTF_8)));
            long confirmed = sender.sendWithPublishConfirms(messages).filter(OutboundMessageResult::isAck).count().block();
            same(200L, confirmed);
            List<String> got = receiver.consumeManualAck(queue).take(200).map(delivery -> {
                delivery.ack();
                return new String(delivery.getBody(), StandardCharsets.UTF_8);
            }).collectList().block();
            same("m0 m199", got.get(0) + " " + got.get(199));
            sender.delete(QueueSpecification.queue(queue)).block();
        }
    }

    private static void reactorRpc(Scene scene) throws Exception {
        String queue = own(scene);
        SimpleMessageListenerContainer container = listen(new SimpleMessageListenerContainer(scene.factory), queue,
            message -> scene.template.convertAndSend(message.getMessageProperties().getReplyTo(), (Object) "pong", reply -> {
                reply.getMessageProperties().setCorrelationId(message.getMessageProperties().getCorrelationId());
                return reply;
            }));
        com.rabbitmq.client.ConnectionFactory factory = new com.rabbitmq.client.ConnectionFactory();
        factory.setUri(url);
        try (Sender sender = RabbitFlux.createSender(new SenderOptions().connectionFactory(factory))) {
            var client = sender.rpcClient("", queue);
            var answer = client.rpc(reactor.core.publisher.Mono.just(new reactor.rabbitmq.RpcClient.RpcRequest(new byte[] {1})));
            same("pong", new String(answer.block(java.time.Duration.ofSeconds(LIMIT)).getBody(), StandardCharsets.UTF_8));
            client.close();
        }
        container.stop();
    }

    public static void main(String[] words) throws Exception {
        ((Logger) LoggerFactory.getLogger(Logger.ROOT_LOGGER_NAME)).setLevel(Level.OFF);
        url = words[0];
        check("the admin declares and deletes", Checks::declarations);
        check("correlated confirms", Checks::confirms);
        check("a returned message is correlated", Checks::returns);
        check("a refused message is correlated", Checks::refusals);
        check("a rejected message is dead-lettered", Checks::deadLetters);
        check("a failed message is delivered again", Checks::requeues);
        check("direct replies", Checks::replies);
        check("transactions", Checks::transactions);
        check("batches", Checks::batches);
        check("a listener waits for its queue", Checks::listenerOfMissingQueue);
        check("an unequal declaration is refused", Checks::unequalDeclaration);
        check("reactor: confirms and acknowledgements", Checks::reactorConfirms);
        check("reactor: direct replies", Checks::reactorRpc);
        System.exit(0);
    }
}
