import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Many JmsClients in one Java, each in a thread of its own with its own connection (tests/support/jms/server.py).
 *
 * A line on stdin asks for one: its number, the file for its output, and its arguments, divided by tabs. A number alone
 * ends the client of that number. A line on stdout tells that one has ended: its number and its status.
 */
public final class JmsClients {
    private static final Map<String, Thread> RUNNING = new ConcurrentHashMap<>();

    private JmsClients() {
    }

    public static void main(String[] args) throws IOException {
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = asked.readLine(); line != null; line = asked.readLine()) {
            String[] fields = line.split("\t", -1);
            if (fields.length > 1) {
                start(fields[0], fields[1], Arrays.copyOfRange(fields, 2, fields.length));
            } else if (RUNNING.containsKey(line)) {
                RUNNING.get(line).interrupt();
            }
        }
        System.exit(0);
    }

    private static void start(String number, String file, String[] arguments) {
        Thread client = new Thread(() -> {
            int status = run(file, arguments);
            RUNNING.remove(number);
            System.out.println(number + " " + status);
        });
        RUNNING.put(number, client);
        client.start();
    }

    private static int run(String file, String[] arguments) {
        try (PrintStream output = new PrintStream(new FileOutputStream(file, true), true, StandardCharsets.UTF_8)) {
            return JmsClient.run(arguments, output);
        } catch (IOException error) {
            return 2;
        }
    }
}
