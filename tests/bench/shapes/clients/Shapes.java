import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.JMSException;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import org.apache.qpid.jms.JmsConnectionFactory;

/** Sends one message of each shape with Qpid JMS: `Shapes URL ADDRESS`. The order is that of ../record.py. */
public final class Shapes {
    private final Session session;
    private final MessageProducer producer;

    private Shapes(Session session, MessageProducer producer) {
        this.session = session;
        this.producer = producer;
    }

    public static void main(String[] args) throws JMSException {
        try (Connection connection = new JmsConnectionFactory(args[0]).createConnection()) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            new Shapes(session, session.createProducer(session.createQueue(args[1]))).run();
        }
        System.exit(0);
    }

    private void run() throws JMSException {
        producer.send(bytes(100));
        producer.send(bytes(1000));
        Message three = bytes(100);
        three.setStringProperty("region", "eu-1");
        three.setIntProperty("size", 17);
        three.setBooleanProperty("urgent", true);
        producer.send(three);
        Message twenty = bytes(100);
        for (int n = 1; n <= 20; n++) {
            twenty.setStringProperty(String.format("name_%02d", n), String.format("value-%02d", n));
        }
        producer.send(twenty);
        Message keyed = bytes(100);
        keyed.setStringProperty("JMSXGroupID", "customer-7");
        producer.send(keyed);
        producer.send(session.createTextMessage("x".repeat(100)));
        producer.send(session.createTextMessage("x".repeat(1000)));
        MapMessage map = session.createMapMessage();
        map.setString("region", "eu-1");
        map.setLong("size", 17);
        map.setBoolean("urgent", true);
        producer.send(map);
        Message full = bytes(100);
        full.setJMSCorrelationID("order-00000017");
        full.setJMSType("created");
        full.setJMSReplyTo(session.createQueue("answers/7"));
        producer.send(full, DeliveryMode.PERSISTENT, 7, 3_600_000L);
        producer.send(bytes(100), DeliveryMode.NON_PERSISTENT, Message.DEFAULT_PRIORITY, Message.DEFAULT_TIME_TO_LIVE);
    }

    private BytesMessage bytes(int size) throws JMSException {
        BytesMessage message = session.createBytesMessage();
        message.writeBytes("x".repeat(size).getBytes());
        return message;
    }
}
