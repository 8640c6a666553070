package org.penstock.tests;

import java.lang.reflect.Method;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.qpid.tests.protocol.v1_0.ExistingQueueAdmin;
import org.apache.qpid.tests.utils.BrokerAdmin;
import org.apache.qpid.tests.utils.BrokerAdminException;

/** What Broker-J's protocol tests ask of a broker, for a Penstock that runs: queues by its HTTP API. */
public class PenstockAdmin implements BrokerAdmin {
    private static final Pattern DEPTH = Pattern.compile("\"messages\": ?(\\d+)");
    private final HttpClient http = HttpClient.newHttpClient();
    private final List<String> created = new ArrayList<>();

    @Override public String getType() { return "PENSTOCK"; }

    @Override public String getKind() { return BrokerAdmin.KIND_BROKER_J; }  // Else what is for it alone fails before it begins.

    @Override public void beforeTestClass(Class testClass) { }

    @Override public void beforeTestMethod(Class testClass, Method method) { }

    @Override public void afterTestMethod(Class testClass, Method method) {
        List.copyOf(created).forEach(this::deleteQueue);
    }

    @Override public void afterTestClass(Class testClass) { }

    @Override public InetSocketAddress getBrokerAddress(PortType portType) {
        return new InetSocketAddress("127.0.0.1", Integer.getInteger("penstock.port"));
    }

    @Override public void createQueue(String queue) {
        call("DELETE", queue, null);
        call("PUT", queue, "{\"durable\": true}");
        created.add(queue);
    }

    @Override public void deleteQueue(String queue) {
        call("DELETE", queue, null);
        created.remove(queue);
    }

    @Override public void putMessageOnQueue(String queue, String... messages) {
        new ExistingQueueAdmin().putMessageOnQueue(this, queue, messages);
    }

    @Override public int getQueueDepthMessages(String queue) {
        Matcher depth = DEPTH.matcher(call("GET", queue, null));
        if (!depth.find()) throw new BrokerAdminException("no depth of " + queue);
        return Integer.parseInt(depth.group(1));
    }

    @Override public boolean supportsRestart() { return false; }

    @Override public CompletableFuture<Void> restart() { throw new UnsupportedOperationException(); }

    @Override public boolean isAnonymousSupported() { return false; }

    @Override public boolean isSASLSupported() { return true; }

    @Override public boolean isSASLMechanismSupported(String mechanism) { return mechanism.equalsIgnoreCase("PLAIN"); }

    @Override public boolean isWebSocketSupported() { return false; }

    @Override public boolean isQueueDepthSupported() { return true; }

    @Override public boolean isManagementSupported() { return false; }

    @Override public boolean isPutMessageOnQueueSupported() { return true; }

    @Override public boolean isDeleteQueueSupported() { return true; }

    @Override public String getValidUsername() { return "guest"; }

    @Override public String getValidPassword() { return "guest"; }

    private String call(String method, String queue, String body) {
        HttpRequest.BodyPublisher sent = body == null
            ? HttpRequest.BodyPublishers.noBody() : HttpRequest.BodyPublishers.ofString(body);
        String login = Base64.getEncoder().encodeToString("guest:guest".getBytes(StandardCharsets.US_ASCII));
        HttpRequest request = HttpRequest.newBuilder(URI.create(System.getProperty("penstock.http") + "/api/queues/%2F/" + queue))
            .header("Authorization", "Basic " + login).header("Content-Type", "application/json").method(method, sent).build();
        HttpResponse<String> answer;
        try {
            answer = http.send(request, HttpResponse.BodyHandlers.ofString());
        } catch (Exception error) {
            throw new BrokerAdminException(method + " " + queue, error);
        }
        if (answer.statusCode() >= 400 && !(answer.statusCode() == 404 && method.equals("DELETE"))) {
            throw new BrokerAdminException(method + " " + queue + ": " + answer.statusCode() + " " + answer.body());
        }
        return answer.body();
    }
}
