import jakarta.jms.Connection;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * A durable subscription of Qpid JMS: url, client id, name, address, how many messages. One JSON object a line on
 * stdout, as JmsClient prints them.
 */
public final class Subscriber {
    private Subscriber() {
    }

    public static void main(String[] args) throws Exception {
        int status = 0;
        try (Connection connection = new JmsConnectionFactory(args[0]).createConnection()) {
            connection.setClientID(args[1]);
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer consumer = session.createDurableConsumer(session.createTopic(args[3]), args[2]);
            System.out.println("{\"event\":\"attached\"}");
            for (int n = 0; n < Integer.parseInt(args[4]); n++) {
                Message message = consumer.receive(20_000);
                if (message == null) {
                    throw new IllegalStateException("no message within 20 s");
                }
                byte[] body = message.getBody(byte[].class);
                System.out.println("{\"event\":\"message\",\"body\":\"" + new String(body, "UTF-8") + "\"}");
            }
            consumer.close();
        } catch (Exception error) {
            String text = String.valueOf(error.getMessage()).replace("\"", "'").replace("\n", " ");
            System.out.println("{\"event\":\"error\",\"message\":\"" + text + "\"}");
            status = 1;
        }
        System.exit(status);
    }
}
