import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * Makes one output of each input in transacted sessions, until it is killed; connections that are lost are made again.
 * Prints what became of each transaction. Arguments: URL, client id, input and output address.
 */
public final class TransactedWork {
    private static final int MESSAGES = 3;
    private static final long PATIENCE = 60_000;

    private TransactedWork() {
    }

    public static void main(String[] args) throws Exception {
        while (true) {
            try (Connection connection = new JmsConnectionFactory(args[0]).createConnection()) {
                connection.setClientID(args[1]);
                connection.start();
                Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
                MessageConsumer consumer = session.createDurableConsumer(session.createTopic(args[2]), "work");
                MessageProducer output = session.createProducer(session.createQueue(args[3]));
                System.out.println("attached");
                for (int number = 1; ; number++) {
                    work(session, consumer, output, number % 4 == 0);
                }
            } catch (JMSException error) {
                System.out.println("lost: " + error.getMessage());
                Thread.sleep(100);
            }
        }
    }

    private static void work(Session session, MessageConsumer consumer, MessageProducer output, boolean undo)
        throws JMSException {
        for (int number = 0; number < MESSAGES; number++) {
            Message message = consumer.receive(PATIENCE);
            if (message == null) {
                throw new JMSException("nothing to receive");
            }
            output.send(session.createTextMessage("made of " + new String(message.getBody(byte[].class))));
        }
        if (undo) {
            session.rollback();
            System.out.println("rolled back");
        } else {
            session.commit();
            System.out.println("committed");
        }
    }
}
