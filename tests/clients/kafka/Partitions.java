import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The Java producer with its own settings: sends a record for each key and prints which partition it chose. Keys come
 * as lines of hexadecimal digits in a file.
 */
public final class Partitions {
    private Partitions() {
    }

    public static void main(String[] args) throws Exception {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", args[0]));
        ByteArraySerializer plain = new ByteArraySerializer();
        List<String> keys = Files.readAllLines(Path.of(args[2]));
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, plain, plain)) {
            for (String key : keys) {
                byte[] bytes = HexFormat.of().parseHex(key);
                var record = new ProducerRecord<byte[], byte[]>(args[1], bytes, bytes);
                System.out.println(key + " " + producer.send(record).get().partition());
            }
        }
    }
}
