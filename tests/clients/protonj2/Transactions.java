import java.util.concurrent.TimeUnit;
import org.apache.qpid.protonj2.client.Client;
import org.apache.qpid.protonj2.client.Connection;
import org.apache.qpid.protonj2.client.Delivery;
import org.apache.qpid.protonj2.client.Message;
import org.apache.qpid.protonj2.client.Receiver;
import org.apache.qpid.protonj2.client.Sender;
import org.apache.qpid.protonj2.client.Session;

/** Transactions of protonj2: sends, receives, both, and their rollbacks. Arguments: host, port, input, output address. */
public final class Transactions {
    private static final int MESSAGES = 3;
    private static final long PATIENCE = 20;

    private Transactions() {
    }

    public static void main(String[] args) throws Exception {
        try (Client client = Client.create();
            Connection connection = client.connect(args[0], Integer.parseInt(args[1]));
            Session session = connection.openSession()) {
            Receiver receiver = session.openReceiver(args[2]).openFuture().get(PATIENCE, TimeUnit.SECONDS);
            Sender input = session.openSender(args[2]);
            session.beginTransaction();
            send(input, "undone");
            session.rollbackTransaction();
            session.beginTransaction();
            send(input, "in");
            session.commitTransaction();
            Sender output = session.openSender(args[3]);
            session.beginTransaction();
            transform(receiver, output, 0);
            session.rollbackTransaction();
            session.beginTransaction();
            transform(receiver, output, 1);
            session.commitTransaction();
        }
        System.out.println("done");
    }

    private static void send(Sender sender, String text) throws Exception {
        for (int number = 0; number < MESSAGES; number++) {
            sender.send(Message.create(text + " " + number));
        }
    }

    private static void transform(Receiver receiver, Sender sender, long failures) throws Exception {
        for (int number = 0; number < MESSAGES; number++) {
            Delivery delivery = receiver.receive(PATIENCE, TimeUnit.SECONDS);
            if (delivery == null || delivery.message().deliveryCount() != failures) {
                throw new IllegalStateException("message " + number + ": " + delivery);
            }
            sender.send(Message.create("out of " + delivery.message().body()));
        }
    }
}
