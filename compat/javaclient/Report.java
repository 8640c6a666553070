package compat;

import com.rabbitmq.client.ConnectionFactory;
import java.io.FileWriter;
import java.io.IOException;
import java.io.Writer;
import java.util.HashSet;
import java.util.Set;
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/** Runs JUnit's classes, and appends a line of JSON for each test to the file that COMPAT_RESULTS names. */
public class Report extends RunListener {
    private final Set<String> told = new HashSet<>();

    public static void main(String[] classes) throws Exception {
        JUnitCore core = new JUnitCore();
        core.addListener(new Report());
        Class<?>[] suites = new Class<?>[classes.length];
        for (int at = 0; at < classes.length; at++) {
            suites[at] = Class.forName(classes[at]);
        }
        core.run(suites);
        System.exit(0); // threads of connections that a test has left would keep the program
    }

    /** The port of the broker, where the tests would say 5672. */
    public static int port() {
        return Integer.getInteger("compat.port");
    }

    /** A factory that connects to the broker wherever the tests leave its port as it is. */
    public static ConnectionFactory at(ConnectionFactory factory) {
        factory.setPort(port());
        return factory;
    }

    @Override
    public void testFailure(Failure failure) throws IOException {
        System.out.println(failure.getTestHeader() + "\n" + failure.getTrace());
        tell(failure.getDescription(), "failed", String.valueOf(failure.getException()));
    }

    @Override
    public void testAssumptionFailure(Failure failure) {
        try {
            tell(failure.getDescription(), "skipped", "it does not apply: " + failure.getMessage());
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    @Override
    public void testIgnored(Description test) throws IOException {
        tell(test, "skipped", "its authors ignore it");
    }

    @Override
    public void testFinished(Description test) throws IOException {
        if (!told.contains(test.getDisplayName())) {
            tell(test, "passed", "");
        }
    }

    private void tell(Description test, String outcome, String why) throws IOException {
        told.add(test.getDisplayName());
        String name = test.getTestClass() == null ? test.getDisplayName() : test.getTestClass().getSimpleName() + "." + test.getMethodName();
        String first = why.split("\n", 2)[0];
        try (Writer file = new FileWriter(System.getenv("COMPAT_RESULTS"), true)) {
            file.write("{\"test\": " + quoted(name) + ", \"outcome\": \"" + outcome + "\", \"why\": " + quoted(first) + "}\n");
        }
    }

    private static String quoted(String text) {
        StringBuilder json = new StringBuilder("\"");
        for (char one : text.toCharArray()) {
            json.append(one < ' ' || one == '"' || one == '\\' || one > '~' ? String.format("\\u%04x", (int) one) : one);
        }
        return json.append('"').toString();
    }
}
