import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import org.apache.qpid.jms.JmsConnectionFactory;

/** Transacted sessions of Qpid JMS: sends, receives, both, and their rollbacks. Arguments: URL, input and output address. */
public final class Transacted {
    private static final int MESSAGES = 3;
    private static final long PATIENCE = 20_000;

    private Transacted() {
    }

    public static void main(String[] args) throws Exception {
        try (Connection connection = new JmsConnectionFactory(args[0]).createConnection()) {
            connection.start();
            Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
            MessageConsumer consumer = session.createConsumer(session.createQueue(args[1]));
            MessageProducer input = session.createProducer(session.createQueue(args[1]));
            send(session, input, "undone");
            session.rollback();
            send(session, input, "in");
            session.commit();
            MessageProducer output = session.createProducer(session.createQueue(args[2]));
            transform(session, consumer, output, false);
            session.rollback();
            transform(session, consumer, output, true);
            session.commit();
        }
        System.out.println("done");
    }

    private static void send(Session session, MessageProducer producer, String text) throws JMSException {
        for (int number = 0; number < MESSAGES; number++) {
            producer.send(session.createTextMessage(text + " " + number));
        }
    }

    private static void transform(Session session, MessageConsumer consumer, MessageProducer producer, boolean again)
        throws JMSException {
        for (int number = 0; number < MESSAGES; number++) {
            Message message = consumer.receive(PATIENCE);
            if (message == null || message.getJMSRedelivered() != again) {
                throw new IllegalStateException("message " + number + ", redelivered " + again + ": " + message);
            }
            producer.send(session.createTextMessage("out of " + ((TextMessage) message).getText()));
        }
    }
}
