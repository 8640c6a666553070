import com.rabbitmq.client.BlockedListener;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import java.util.concurrent.CompletableFuture;

/** RabbitMQ's Java client publishes without confirms until it hears of a block, and tells the reason. java Hear.java URL QUEUE */
public class Hear {
    public static void main(String[] words) throws Exception {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(words[0]);
        Connection connection = factory.newConnection();
        Channel channel = connection.createChannel();
        CompletableFuture<String> heard = new CompletableFuture<>();
        connection.addBlockedListener(new BlockedListener() {
            public void handleBlocked(String reason) {
                heard.complete(reason);
            }

            public void handleUnblocked() {}
        });
        channel.addShutdownListener(cause -> heard.completeExceptionally(cause));
        Thread publisher = new Thread(() -> {
            try {
                while (!heard.isDone()) channel.basicPublish("", words[1], null, new byte[50000]);
            } catch (Exception failure) {
                heard.completeExceptionally(failure);
            }
        });
        publisher.setDaemon(true);
        publisher.start();
        System.out.println(heard.get());
        Runtime.getRuntime().halt(0); // Its publisher waits, and so would the close.
    }
}
