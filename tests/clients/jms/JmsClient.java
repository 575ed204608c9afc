import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.Destination;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.TemporaryQueue;
import jakarta.jms.TextMessage;
import java.io.FileInputStream;
import java.io.InputStream;
import java.io.PrintStream;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * Qpid JMS as a command: send, receive, request, respond. One JSON object a line on stdout; the same options and
 * events as tests/clients/rhea/client.js, so that one Python wrapper (tests/support/amqp/foreign.py) drives both.
 */
public final class JmsClient {
    private final Map<String, String> options;
    private final Session session;
    private final PrintStream output;
    private final int count;
    private final long timeout;

    private JmsClient(Map<String, String> options, Session session, PrintStream output) {
        this.options = options;
        this.session = session;
        this.output = output;
        this.count = Integer.parseInt(options.getOrDefault("count", "1"));
        this.timeout = Long.parseLong(options.getOrDefault("timeout", "20")) * 1000;
    }

    public static void main(String[] args) {
        System.exit(run(args, System.out));
    }

    /** Do what the arguments say; the exit status of the command. */
    static int run(String[] args, PrintStream output) {
        Map<String, String> options = new LinkedHashMap<>();
        for (int i = 1; i + 1 < args.length; i += 2) {
            options.put(args[i].substring(2), args[i + 1]);
        }
        try (Connection connection = connect(options)) {
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            new JmsClient(options, session, output).run(args[0]);
            return 0;
        } catch (Exception error) {
            String message = String.valueOf(error.getMessage());
            print(output, "error", Map.of("message", message, "type", error.getClass().getSimpleName()));
            return 1;
        }
    }

    private static Connection connect(Map<String, String> options) throws Exception {
        JmsConnectionFactory factory = new JmsConnectionFactory(options.get("url"));
        if (options.containsKey("cafile")) {
            factory.setSslContext(trusting(options.get("cafile")));
        }
        return options.containsKey("user")
            ? factory.createConnection(options.get("user"), options.get("password"))
            : factory.createConnection();
    }

    private static SSLContext trusting(String cafile) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (InputStream pem = new FileInputStream(cafile)) {
            store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(pem));
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        return context;
    }

    private void run(String command) throws JMSException {
        switch (command) {
            case "send" -> send();
            case "receive" -> receive();
            case "request" -> request();
            case "respond" -> respond();
            default -> throw new IllegalArgumentException(command);
        }
    }

    private Destination address() throws JMSException {
        return session.createQueue(options.get("address"));
    }

    private TextMessage text(int n) throws JMSException {
        return session.createTextMessage(options.getOrDefault("body", "{n}").replace("{n}", String.valueOf(n)));
    }

    private void send() throws JMSException {
        MessageProducer producer = session.createProducer(address());
        for (int n = 0; n < count; n++) {
            TextMessage message = text(n);
            message.setIntProperty("n", n);
            producer.send(message);
            print("outcome", Map.of("n", n, "outcome", "accepted"));
        }
    }

    private void receive() throws JMSException {
        MessageConsumer consumer = session.createConsumer(address(), options.get("selector"));
        print("attached", Map.of());
        for (int n = 0; n < count; n++) {
            print("message", describe(next(consumer)));
        }
    }

    private void request() throws JMSException {
        TemporaryQueue replies = session.createTemporaryQueue();
        MessageConsumer consumer = session.createConsumer(replies);
        MessageProducer producer = session.createProducer(address());
        for (int n = 0; n < count; n++) {
            TextMessage message = text(n);
            message.setJMSReplyTo(replies);
            message.setJMSCorrelationID("request-" + n);
            producer.send(message);
            print("message", describe(next(consumer)));
        }
    }

    private void respond() throws JMSException {
        MessageConsumer consumer = session.createConsumer(address());
        MessageProducer anonymous = session.createProducer(null);
        print("attached", Map.of());
        for (int n = 0; n < count; n++) {
            Message request = next(consumer);
            TextMessage response = session.createTextMessage("re: " + body(request));
            boolean pattern = "message-id".equals(options.get("correlate"));  // JMS knows both patterns
            response.setJMSCorrelationID(pattern ? request.getJMSMessageID() : request.getJMSCorrelationID());
            anonymous.send(request.getJMSReplyTo(), response);
            print("message", describe(request));
        }
    }

    private Message next(MessageConsumer consumer) throws JMSException {
        Message message = consumer.receive(timeout);
        if (message == null) {
            throw new JMSException("no message within " + timeout + " ms");
        }
        return message;
    }

    private static String body(Message message) throws JMSException {
        if (message instanceof TextMessage text) {
            return text.getText();
        }
        if (message instanceof BytesMessage bytes) {
            byte[] data = new byte[(int) bytes.getBodyLength()];
            bytes.readBytes(data);
            return new String(data, java.nio.charset.StandardCharsets.UTF_8);
        }
        return String.valueOf(message);
    }

    private static Map<String, Object> describe(Message message) throws JMSException {
        Map<String, Object> application = new LinkedHashMap<>();
        for (Object name : Collections.list(message.getPropertyNames())) {
            application.put(name.toString(), message.getObjectProperty(name.toString()));
        }
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("body", body(message));
        fields.put("message_id", message.getJMSMessageID());
        fields.put("correlation_id", message.getJMSCorrelationID());
        fields.put("reply_to", message.getJMSReplyTo() == null ? null : message.getJMSReplyTo().toString());
        fields.put("application_properties", application);
        return fields;
    }

    private void print(String event, Map<String, ?> fields) {
        print(output, event, fields);
    }

    private static void print(PrintStream output, String event, Map<String, ?> fields) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("event", event);
        line.putAll(fields);
        output.println(json(line));
        output.flush();
    }

    private static String json(Object value) {
        if (value == null || value instanceof Number || value instanceof Boolean) {
            return String.valueOf(value);
        }
        if (value instanceof Map<?, ?> map) {
            StringBuilder text = new StringBuilder("{");
            map.forEach((key, item) ->
                text.append(text.length() > 1 ? "," : "").append(quote(key.toString())).append(":").append(json(item)));
            return text.append("}").toString();
        }
        return quote(value.toString());
    }

    private static String quote(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        text.chars().forEach(c -> quoted.append(c < 32 || c == '"' || c == '\\' || c > 126
            ? String.format("\\u%04x", c) : String.valueOf((char) c)));
        return quoted.append("\"").toString();
    }
}
