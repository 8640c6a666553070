// Checks of RabbitMQ's client of AMQP 1.0: HOST:PORT, the beginning of names, and the checks to run. Prints a line for each that passes.

import com.rabbitmq.client.amqp.AmqpException;
import com.rabbitmq.client.amqp.Connection;
import com.rabbitmq.client.amqp.Consumer;
import com.rabbitmq.client.amqp.Environment;
import com.rabbitmq.client.amqp.Management;
import com.rabbitmq.client.amqp.Message;
import com.rabbitmq.client.amqp.Publisher;
import com.rabbitmq.client.amqp.impl.AmqpEnvironmentBuilder;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

public class Check {
  static final long PATIENCE_S = 60;
  static Connection connection;
  static Management management;
  static String name;

  public static void main(String[] words) {
    try {
      check(words);
      System.exit(0);
    } catch (Throwable error) {
      error.printStackTrace();
      System.exit(1); // Threads of the client would keep the program alive.
    }
  }

  static void check(String[] words) throws Exception {
    String[] at = words[0].split(":");
    Environment environment =
        new AmqpEnvironmentBuilder()
            .connectionSettings().host(at[0]).port(Integer.parseInt(at[1])).username("guest").password("guest")
            .environmentBuilder().build();
    connection = environment.connectionBuilder().name(words[1]).build();
    management = connection.management();
    for (int number = 2; number < words.length; number++) {
      name = words[1] + "-" + words[number];
      switch (words[number]) {
        case "queues" -> queues();
        case "bindings" -> bindings();
        case "outcomes" -> outcomes();
        case "deliveries" -> deliveries();
        case "requests" -> requests();
        default -> throw new IllegalArgumentException(words[number]);
      }
      System.out.println(words[number] + " passed");
    }
    environment.close();
  }

  static void queues() {
    String of = name + "/größe 1;x=+&";
    Management.QueueInfo made = management.queue(of).quorum().deliveryLimit(3).queue().declare();
    expect("QUORUM", made.type().name());
    management.queue(of).quorum().deliveryLimit(3).queue().declare();
    Management.QueueInfo info = management.queueInfo(of);
    expect(of + " 0 0 true", info.name() + " " + info.messageCount() + " " + info.consumerCount() + " " + info.durable());
    expect(true, info.members().contains(info.leader()));
    expect("409", refusal(() -> management.queue(of).type(Management.QueueType.CLASSIC).declare()));
    expect("400", refusal(() -> management.queue(name + "-s").stream().queue().declare()));
    management.queuePurge(of);
    management.queueDelete(of);
    expect("no queue", refusal(() -> management.queueInfo(of)));
    expect(true, management.queue().exclusive(true).declare().name().length() > 0);
  }

  static void bindings() throws Exception {
    String key = "a b+c";
    management.exchange(name).type(Management.ExchangeType.DIRECT).declare();
    management.exchange(name + "-2").type("fanout").declare();
    management.queue(name).type(Management.QueueType.CLASSIC).declare();
    management.binding().sourceExchange(name).destinationQueue(name).key(key).argument("z", 1).bind();
    management.binding().sourceExchange(name + "-2").destinationExchange(name).key(key).bind();
    Publisher publisher = connection.publisherBuilder().exchange(name).key(key).build();
    expect("ACCEPTED", publish(publisher, publisher.message("1".getBytes())));
    management.unbind().sourceExchange(name).destinationQueue(name).key(key).argument("z", 1).unbind();
    expect("RELEASED", publish(publisher, publisher.message("2".getBytes())));
    publisher.close();
    management.unbind().sourceExchange(name + "-2").destinationExchange(name).key(key).unbind();
    management.exchangeDelete(name);
    management.exchangeDelete(name + "-2");
    management.queueDelete(name);
  }

  static void outcomes() throws Exception {
    management.queue(name).type(Management.QueueType.CLASSIC).declare();
    Publisher anonymous = connection.publisherBuilder().build();
    expect("ACCEPTED", publish(anonymous, anonymous.message("1".getBytes()).toAddress().queue(name).message()));
    anonymous.close();
    expect("no queue", refusal(() -> connection.publisherBuilder().queue(name + "-none").build()));
    management.queueDelete(name);
  }

  static void deliveries() throws Exception {
    management.queue(name + "-dead").type(Management.QueueType.CLASSIC).declare();
    management.queue(name).deadLetterExchange("").deadLetterRoutingKey(name + "-dead").quorum().queue().declare();
    Publisher publisher = connection.publisherBuilder().queue(name).build();
    for (String body : new String[] {"requeued", "discarded", "accepted"}) {
      expect("ACCEPTED", publish(publisher, publisher.message(body.getBytes())));
    }
    BlockingQueue<String> seen = new LinkedBlockingQueue<>();
    Consumer consumer =
        connection.consumerBuilder().queue(name).priority(5).initialCredits(1).messageHandler((context, message) -> {
          String body = new String(message.body());
          seen.add(body);
          if (body.equals("discarded")) context.discard();
          else if (body.equals("requeued") && seen.size() == 1) context.requeue();
          else context.accept();
        }).build();
    expect("requeued", seen.poll(PATIENCE_S, TimeUnit.SECONDS));
    BlockingQueue<Message> dead = new LinkedBlockingQueue<>();
    Consumer other = connection.consumerBuilder().queue(name + "-dead").messageHandler((context, message) -> {
      dead.add(message);
      context.accept();
    }).build();
    Message letter = dead.poll(PATIENCE_S, TimeUnit.SECONDS);
    expect("discarded", new String(letter.body()));
    expect(name + "-dead", letter.annotation("x-routing-key"));
    consumer.close();
    other.close();
    publisher.close();
    management.queueDelete(name);
    management.queueDelete(name + "-dead");
  }

  static void requests() throws Exception {
    management.queue(name).type(Management.QueueType.CLASSIC).declare();
    try (var responder = connection.responderBuilder().requestQueue(name).handler((context, request) ->
            context.message(("to " + new String(request.body())).getBytes())).build();
        var requester = connection.requesterBuilder().requestAddress().queue(name).requester().build()) {
      Message answer = requester.publish(requester.message("x".getBytes())).get(PATIENCE_S, TimeUnit.SECONDS);
      expect("to x", new String(answer.body()));
    }
    management.queueDelete(name);
  }

  static String publish(Publisher publisher, Message message) throws Exception {
    CompletableFuture<String> status = new CompletableFuture<>();
    publisher.publish(message, context -> status.complete(context.status().name()));
    return status.get(PATIENCE_S, TimeUnit.SECONDS);
  }

  static String refusal(Runnable refused) {
    try {
      refused.run();
    } catch (AmqpException error) {
      for (String part : new String[] {"code: 409", "code: 400", "no queue"}) {
        if (error.getMessage().contains(part)) return part.replace("code: ", "");
      }
      return error.getMessage();
    }
    return "no error";
  }

  static void expect(Object wanted, Object found) {
    if (!wanted.equals(found)) throw new AssertionError(name + ": wanted " + wanted + ", found " + found);
  }
}
