// Qpid JMS, unchanged: each check prints its name, and what went wrong. Usage: java Check.java HOST:PORT PREFIX CHECK...
// PREFIX-work and PREFIX-dead are queues; PREFIX-work dead-letters to PREFIX-dead.

import jakarta.jms.*;
import java.util.ArrayList;
import java.util.Enumeration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.qpid.jms.JmsConnectionFactory;

public class Check {
    static final long PATIENCE = 30_000;
    static final long ABSENCE = 500;

    interface Act {
        void run() throws Exception;
    }

    static String server;
    static String prefix;

    static JmsConnectionFactory factory(String options) {
        JmsConnectionFactory factory = new JmsConnectionFactory("amqp://" + server + options);
        factory.setUsername("guest");
        factory.setPassword("guest");
        return factory;
    }

    static Connection connect(String client) throws JMSException {
        Connection connection = factory("").createConnection();
        if (client != null) connection.setClientID(client);
        connection.start();
        return connection;
    }

    static void same(Object seen, Object expected) {
        if (!String.valueOf(seen).equals(String.valueOf(expected))) throw new AssertionError("seen " + seen + ", not " + expected);
    }

    static void send(Session session, Destination to, String... texts) throws JMSException {
        MessageProducer producer = session.createProducer(to);
        for (String text : texts) {
            TextMessage message = session.createTextMessage(text);
            message.setStringProperty("colour", text.startsWith("r") ? "red" : "blue");
            message.setIntProperty("length", text.length());
            producer.send(message);
        }
        producer.close();
    }

    static List<String> receive(MessageConsumer consumer, int count) throws JMSException {
        List<String> found = new ArrayList<>();
        while (found.size() < count) {
            Message message = consumer.receive(PATIENCE);
            if (message == null) throw new AssertionError("only " + found + " of " + count);
            found.add(((TextMessage) message).getText());
        }
        return found;
    }

    static void nothing(MessageConsumer consumer) throws JMSException {
        Message message = consumer.receiveNoWait();  // Qpid JMS drains its link for this.
        if (message != null) throw new AssertionError("there is " + message);
    }

    static void queue() throws Exception {
        try (Connection connection = connect(null)) {
            Session session = connection.createSession();
            Queue work = session.createQueue(prefix + "-work");
            MessageProducer producer = session.createProducer(work);
            MapMessage map = session.createMapMessage();
            map.setInt("n", 7);
            BytesMessage bytes = session.createBytesMessage();
            bytes.writeBytes(new byte[300_000]);
            ObjectMessage object = session.createObjectMessage(new ArrayList<>(List.of("x")));
            StreamMessage stream = session.createStreamMessage();
            stream.writeLong(8);
            TextMessage text = session.createTextMessage("größe");
            text.setJMSCorrelationID("c");
            text.setJMSType("t");
            text.setDoubleProperty("d", 1.5);
            for (Message each : List.of(map, bytes, object, stream)) producer.send(each);
            producer.send(text, DeliveryMode.NON_PERSISTENT, 7, 600_000);
            MessageConsumer consumer = session.createConsumer(work);
            same(((MapMessage) consumer.receive(PATIENCE)).getInt("n"), 7);
            same(((BytesMessage) consumer.receive(PATIENCE)).getBodyLength(), 300_000);
            same(consumer.receive(PATIENCE) instanceof ObjectMessage, true);
            same(((StreamMessage) consumer.receive(PATIENCE)).readLong(), 8);
            Message got = consumer.receive(PATIENCE);
            same(((TextMessage) got).getText(), "größe");
            same(List.of(got.getJMSCorrelationID(), got.getJMSType(), got.getDoubleProperty("d")), "[c, t, 1.5]");
            same(List.of(got.getJMSDeliveryMode(), got.getJMSPriority(), got.getJMSRedelivered()), "[1, 7, false]");
            same(got.getJMSDestination(), prefix + "-work");
            same(got.getJMSExpiration() > 0, true);
            nothing(consumer);
        }
    }

    static void asynchronous() throws Exception {
        try (Connection connection = connect(null)) {
            Session session = connection.createSession();
            Queue work = session.createQueue(prefix + "-work");
            java.util.concurrent.LinkedBlockingQueue<String> seen = new java.util.concurrent.LinkedBlockingQueue<>();
            Session consuming = connection.createSession();
            consuming.createConsumer(work).setMessageListener(message -> {
                try {
                    seen.add(((TextMessage) message).getText());
                } catch (JMSException failure) {
                    throw new RuntimeException(failure);
                }
            });
            for (int number = 0; number < 2500; number++) send(session, work, "" + number);
            for (int number = 0; number < 2500; number++) same(seen.poll(30, java.util.concurrent.TimeUnit.SECONDS), "" + number);
        }
    }

    static void presettled() throws Exception {
        try (Connection connection = factory("?jms.presettlePolicy.presettleAll=true").createConnection()) {
            connection.start();
            Session session = connection.createSession();
            Queue work = session.createQueue(prefix + "-work");
            send(session, work, "a", "b");
            MessageConsumer consumer = session.createConsumer(work);
            same(receive(consumer, 2), "[a, b]");
            nothing(consumer);
        }
    }

    static void acknowledged() throws Exception {
        try (Connection connection = connect(null)) {
            Session session = connection.createSession(Session.CLIENT_ACKNOWLEDGE);
            Queue work = session.createQueue(prefix + "-work");
            send(session, work, "a", "b", "c");
            MessageConsumer consumer = session.createConsumer(work);
            same(receive(consumer, 2), "[a, b]");
            session.recover();
            Message again = consumer.receive(PATIENCE);
            same(List.of(((TextMessage) again).getText(), again.getJMSRedelivered(), again.getIntProperty("JMSXDeliveryCount")), "[a, true, 2]");
            same(receive(consumer, 2), "[b, c]");
            again.acknowledge();
            nothing(consumer);
        }
    }

    static void rejected() throws Exception {
        try (Connection connection = factory("?jms.redeliveryPolicy.maxRedeliveries=1&jms.redeliveryPolicy.outcome=REJECTED").createConnection()) {
            connection.start();
            Session session = connection.createSession(Session.CLIENT_ACKNOWLEDGE);
            Queue work = session.createQueue(prefix + "-work");
            send(session, work, "bad");
            MessageConsumer consumer = session.createConsumer(work);
            for (int tries = 0; tries < 2; tries++) {
                same(receive(consumer, 1), "[bad]");
                session.recover();
            }
            MessageConsumer dead = connection.createSession().createConsumer(session.createQueue(prefix + "-dead"));
            same(consumer.receive(ABSENCE), null);
            same(receive(dead, 1), "[bad]");
        }
    }

    static void transacted() throws Exception {
        try (Connection connection = connect(null)) {
            Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
            Session plain = connection.createSession();
            Queue work = session.createQueue(prefix + "-work");
            send(session, work, "a", "b");
            MessageConsumer outside = plain.createConsumer(work);
            nothing(outside);
            session.rollback();
            nothing(outside);
            outside.close();
            send(session, work, "c", "d", "e");
            session.commit();
            MessageConsumer consumer = session.createConsumer(work);
            same(receive(consumer, 2), "[c, d]");
            session.rollback();
            same(receive(consumer, 3), "[c, d, e]");
            send(session, session.createQueue(prefix + "-dead"), "moved");
            session.commit();
            consumer.close();
            nothing(plain.createConsumer(work));
            same(receive(plain.createConsumer(session.createQueue(prefix + "-dead")), 1), "[moved]");
        }
    }

    static void selector() throws Exception {
        try (Connection connection = connect(null)) {
            Session session = connection.createSession();
            Queue work = session.createQueue(prefix + "-work");
            send(session, work, "red", "blue", "reddish", "black");
            MessageConsumer red = session.createConsumer(work, "colour = 'red' AND length BETWEEN 1 AND 10");
            same(receive(red, 2), "[red, reddish]");
            nothing(red);
            red.close();
            same(receive(session.createConsumer(work, "JMSPriority = 4 AND JMSDeliveryMode = 'PERSISTENT'"), 2), "[blue, black]");
            try {
                session.createConsumer(work, "colour LIKE");
                throw new AssertionError("no InvalidSelectorException");
            } catch (InvalidSelectorException expected) {
                return;
            }
        }
    }

    static void browser() throws Exception {
        try (Connection connection = connect(null)) {
            Session session = connection.createSession();
            Queue work = session.createQueue(prefix + "-work");
            send(session, work, "red", "blue", "ready");
            for (String selector : new String[] {null, "colour = 'red'"}) {
                QueueBrowser browser = session.createBrowser(work, selector);
                List<String> found = new ArrayList<>();
                for (Enumeration<?> each = browser.getEnumeration(); each.hasMoreElements();) {
                    found.add(((TextMessage) each.nextElement()).getText());
                }
                same(found, selector == null ? "[red, blue, ready]" : "[red, ready]");
                browser.close();
            }
            same(receive(session.createConsumer(work), 3), "[red, blue, ready]");
        }
    }

    static void delayed() throws Exception {
        try (Connection connection = connect(null)) {
            Session session = connection.createSession();
            Queue work = session.createQueue(prefix + "-work");
            MessageProducer producer = session.createProducer(work);
            long begun = System.currentTimeMillis();
            for (int mode : new int[] {DeliveryMode.PERSISTENT, DeliveryMode.NON_PERSISTENT}) {
                producer.setDeliveryMode(mode);
                producer.setDeliveryDelay(500);
                producer.setTimeToLive(100);  // Counts from the send: the message expires before it is due.
                producer.send(session.createTextMessage("expired"));
                producer.setTimeToLive(600_000);
                producer.send(session.createTextMessage("later"));
                producer.setDeliveryDelay(0);
                producer.send(session.createTextMessage("now"));
            }
            MessageConsumer consumer = session.createConsumer(work);
            same(receive(consumer, 2), "[now, now]");
            for (int mode : new int[] {DeliveryMode.PERSISTENT, DeliveryMode.NON_PERSISTENT}) {
                Message later = consumer.receive(PATIENCE);
                same(List.of(((TextMessage) later).getText(), later.getJMSDeliveryMode()), "[later, " + mode + "]");
                same(later.getJMSDeliveryTime() - begun >= 500, true);
                same(System.currentTimeMillis() - begun >= 500, true);
            }
            nothing(consumer);
            producer.setDeliveryMode(DeliveryMode.PERSISTENT);
            producer.setDeliveryDelay(1L << 60);
            try {
                producer.send(session.createTextMessage("never"));
                throw new AssertionError("no JMSException");
            } catch (JMSException refused) {
                same(refused.getMessage().contains("x-opt-delivery-time"), true);
            }
        }
    }

    static void topic() throws Exception {
        try (Connection connection = connect(null)) {
            Session session = connection.createSession();
            Topic topic = session.createTopic("amq.topic/" + prefix);
            send(session, topic, "nobody");  // No error in JMS.
            MessageConsumer one = session.createConsumer(topic);
            MessageConsumer two = connection.createSession().createConsumer(topic, "colour = 'red'");
            MessageConsumer foreign = connection.createSession().createConsumer(topic, null, true);  // noLocal
            send(session, topic, "red", "blue");
            same(receive(one, 2), "[red, blue]");
            same(receive(two, 1), "[red]");
            nothing(two);
            nothing(foreign);
        }
    }

    static void durable() throws Exception {
        for (int round = 0; round < 3; round++) {
            try (Connection connection = connect(prefix + "-client")) {
                Session session = connection.createSession();
                Topic topic = session.createTopic("amq.topic/" + prefix);
                MessageConsumer consumer = session.createDurableConsumer(topic, "sub", "colour = 'red'", false);
                if (round == 1) same(receive(consumer, 2), "[red, ready]");
                nothing(consumer);
                consumer.close();
                if (round == 0) send(session, topic, "red", "blue", "ready");
                else if (round == 2) session.unsubscribe("sub");
            }
        }
        try (Connection connection = connect(prefix + "-client")) {
            Session session = connection.createSession();
            Topic topic = session.createTopic("amq.topic/" + prefix);
            send(session, topic, "lost");
            MessageConsumer consumer = session.createDurableConsumer(topic, "sub");
            nothing(consumer);
            try {
                session.unsubscribe("sub");
                throw new AssertionError("unsubscribed while it is in use");
            } catch (JMSException expected) {
                consumer.close();
            }
            session.unsubscribe("sub");
            try {
                session.unsubscribe("sub");
                throw new AssertionError("unsubscribed twice");
            } catch (InvalidDestinationException expected) {
                return;
            }
        }
    }

    static void shared() throws Exception {
        shared(false, null);
        shared(true, prefix + "-client");
        shared(true, null);
    }

    static void shared(boolean durable, String client) throws Exception {
        try (Connection first = connect(client); Connection second = connect(null)) {
            Connection other = client == null ? second : first;
            Session one = first.createSession();
            Session two = other.createSession();
            Topic topic = one.createTopic("amq.topic/" + prefix);
            MessageConsumer a = durable ? one.createSharedDurableConsumer(topic, "s") : one.createSharedConsumer(topic, "s");
            MessageConsumer b = durable ? two.createSharedDurableConsumer(topic, "s") : two.createSharedConsumer(topic, "s");
            Map<String, Integer> seen = new TreeMap<>();
            for (int number = 0; number < 20; number++) send(one, topic, "" + number);
            for (int number = 0; number < 20;) {
                for (MessageConsumer each : List.of(a, b)) {
                    Message message = each.receive(10);
                    if (message == null) continue;
                    seen.merge(((TextMessage) message).getText(), 1, Integer::sum);
                    number++;
                }
            }
            same(seen.size(), 20);
            nothing(a);
            nothing(b);
            a.close();
            b.close();
            if (durable) {
                send(one, topic, "kept");
                MessageConsumer again = two.createSharedDurableConsumer(topic, "s");
                same(receive(again, 1), "[kept]");
                again.close();
                two.unsubscribe("s");
            }
        }
    }

    static void temporary() throws Exception {
        try (Connection connection = connect(null); Connection other = connect(null)) {
            Session session = connection.createSession();
            Session elsewhere = other.createSession();
            TemporaryQueue queue = session.createTemporaryQueue();
            TemporaryTopic topic = session.createTemporaryTopic();
            MessageConsumer one = session.createConsumer(queue);
            MessageConsumer two = session.createConsumer(topic);
            send(elsewhere, elsewhere.createQueue(queue.getQueueName()), "q");
            send(elsewhere, elsewhere.createTopic(topic.getTopicName()), "t");
            same(receive(one, 1), "[q]");
            same(receive(two, 1), "[t]");
            one.close();
            two.close();
            queue.delete();
            topic.delete();
            try {
                send(elsewhere, elsewhere.createQueue(queue.getQueueName()), "late");
                throw new AssertionError("the temporary queue is there");
            } catch (InvalidDestinationException expected) {
                return;
            }
        }
    }

    static void request() throws Exception {
        try (Connection connection = connect(null); Connection serving = connect(null)) {
            Session session = connection.createSession();
            Session service = serving.createSession();
            MessageProducer replies = service.createProducer(null);
            service.createConsumer(service.createQueue(prefix + "-work")).setMessageListener(request -> {
                try {
                    TextMessage reply = service.createTextMessage("re: " + ((TextMessage) request).getText());
                    reply.setJMSCorrelationID(request.getJMSMessageID());
                    replies.send(request.getJMSReplyTo(), reply);
                } catch (JMSException failure) {
                    failure.printStackTrace();
                }
            });
            for (Destination answers : List.of(session.createTemporaryQueue(), session.createTemporaryTopic())) {
                MessageConsumer consumer = session.createConsumer(answers);
                TextMessage request = session.createTextMessage("hello");
                request.setJMSReplyTo(answers);
                session.createProducer(session.createQueue(prefix + "-work")).send(request);
                Message reply = consumer.receive(PATIENCE);
                if (reply == null) throw new AssertionError("no reply to " + answers);
                same(((TextMessage) reply).getText(), "re: hello");
                same(reply.getJMSCorrelationID(), request.getJMSMessageID());
            }
        }
    }

    static void unknown() throws Exception {
        try (Connection connection = connect(null)) {
            Session session = connection.createSession();
            try {
                session.createConsumer(session.createQueue(prefix + "-nowhere"));
                throw new AssertionError("no InvalidDestinationException");
            } catch (InvalidDestinationException expected) {
                same(expected.getMessage().contains("not-found"), true);
            }
        }
    }

    static String refusal(MessageProducer producer, Destination to, Message message) throws JMSException {
        try {
            if (to == null) producer.send(message);
            else producer.send(to, message);
            return "none";
        } catch (JMSException failure) {
            return failure.getClass().getSimpleName() + ": " + failure.getMessage();
        }
    }

    static void refused() throws Exception {  // What a sender hears of its messages.
        try (Connection connection = connect(null)) {
            Session session = connection.createSession();
            MessageProducer anyone = session.createProducer(null);
            MessageProducer nobody = session.createProducer(session.createQueue("/exchanges/amq.topic/nobody"));
            MessageProducer work = session.createProducer(session.createQueue(prefix + "-work"));
            Destination nowhere = session.createQueue("/queues/" + prefix + "-nowhere");
            Message text = session.createTextMessage("a");
            same(refusal(nobody, null, text), "JMSException: Delivery failed: released by receiver");  // Released.
            same(refusal(anyone, nowhere, text).matches("InvalidDestinationException: .*amqp:not-found.*"), true);  // Rejected.
            work.send(text);  // The session goes on.
            receive(session.createConsumer(session.createQueue(prefix + "-work")), 1);
        }
    }

    static final Map<String, Act> CHECKS = new TreeMap<>(Map.ofEntries(
        Map.entry("queue", Check::queue), Map.entry("asynchronous", Check::asynchronous),
        Map.entry("presettled", Check::presettled), Map.entry("acknowledged", Check::acknowledged),
        Map.entry("rejected", Check::rejected), Map.entry("transacted", Check::transacted),
        Map.entry("selector", Check::selector), Map.entry("browser", Check::browser),
        Map.entry("topic", Check::topic), Map.entry("durable", Check::durable),
        Map.entry("shared", Check::shared), Map.entry("temporary", Check::temporary),
        Map.entry("request", Check::request), Map.entry("unknown", Check::unknown),
        Map.entry("refused", Check::refused), Map.entry("delayed", Check::delayed)));

    public static void main(String[] words) throws Exception {
        server = words[0];
        for (int index = 2; index < words.length; index++) {
            prefix = words[1] + "-" + words[index];
            try {
                CHECKS.get(words[index]).run();
                System.out.println(words[index] + " passed");
            } catch (Throwable failure) {
                StackTraceElement where = null;
                for (StackTraceElement each : failure.getStackTrace())
                    if (each.getFileName() != null && each.getFileName().equals("Check.java") && !each.getMethodName().equals("same")
                        && !each.getMethodName().equals("nothing") && !each.getMethodName().equals("receive") && where == null) where = each;
                System.out.println(words[index] + " failed at " + where + ": " + failure);
            }
        }
        System.exit(0);
    }
}
