import com.azure.core.amqp.AmqpRetryMode;
import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.messaging.eventhubs.EventData;
import com.azure.messaging.eventhubs.EventDataBatch;
import com.azure.messaging.eventhubs.EventHubClientBuilder;
import com.azure.messaging.eventhubs.EventHubConsumerClient;
import com.azure.messaging.eventhubs.EventHubProducerClient;
import com.azure.messaging.eventhubs.EventProcessorClient;
import com.azure.messaging.eventhubs.EventProcessorClientBuilder;
import com.azure.messaging.eventhubs.LoadBalancingStrategy;
import com.azure.messaging.eventhubs.models.CreateBatchOptions;
import com.azure.messaging.eventhubs.models.EventPosition;
import com.azure.messaging.eventhubs.models.SendOptions;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * azure-messaging-eventhubs, unmodified. Commands come as lines on stdin, fields separated by tabs, and run side by
 * side, because a Java is slow to start; answers are JSON lines with the number of their command.
 *
 * <pre>
 * NUMBER send      CONNECTION HUB
 * NUMBER one       CONNECTION HUB PARTITION BODY
 * NUMBER read      CONNECTION HUB PARTITION COUNT offset|sequence|from|time|earliest VALUE
 * NUMBER subscribe CONNECTION HUB GROUP COUNT CHECKPOINTS
 * </pre>
 */
public final class HubsClient {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final AmqpRetryOptions RETRY = retry(10);
    private static final Map<String, EventHubProducerClient> PRODUCERS = new ConcurrentHashMap<>();
    private final int number;
    private final String connection;
    private final String hub;
    private final List<String> rest;

    private HubsClient(String[] fields) {
        this.number = Integer.parseInt(fields[0]);
        this.connection = fields[2];
        this.hub = fields[3];
        this.rest = List.of(fields).subList(4, fields.length);
    }

    public static void main(String[] args) throws IOException {
        ExecutorService threads = Executors.newCachedThreadPool();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] fields = line.split("\t", -1);
            threads.execute(() -> new HubsClient(fields).run(fields[1]));
        }
        System.exit(0);
    }

    private void run(String command) {
        try {
            switch (command) {
                case "send" -> send();
                case "one" -> one(rest.get(0), rest.get(1));
                case "read" -> read(rest.get(0), Integer.parseInt(rest.get(1)));
                case "subscribe" -> subscribe(rest.get(0), Integer.parseInt(rest.get(1)));
                default -> throw new IllegalArgumentException(command);
            }
            tell("done", Map.of());
        } catch (Exception error) {
            tell("error", Map.of("text", String.valueOf(error)));
        }
    }

    private static AmqpRetryOptions retry(int seconds) {
        return new AmqpRetryOptions().setMode(AmqpRetryMode.FIXED).setDelay(Duration.ofMillis(200)).setMaxRetries(50)
            .setTryTimeout(Duration.ofSeconds(seconds));
    }

    private EventHubClientBuilder client() {
        return new EventHubClientBuilder().connectionString(connection, hub).retryOptions(RETRY);
    }

    private EventHubProducerClient producer() {
        return PRODUCERS.computeIfAbsent(connection + hub, key -> client().buildProducerClient());
    }

    private void one(String partition, String body) {
        producer().send(List.of(new EventData(body)), new SendOptions().setPartitionId(partition));
    }

    private void send() {
        EventHubProducerClient producer = producer();
        List<String> partitions = new ArrayList<>();
        producer.getEventHubProperties().getPartitionIds().forEach(partitions::add);
        tell("hub", Map.of("partitions", partitions));
        EventData single = new EventData("java single");
        single.getProperties().put("color", "red");
        producer.send(List.of(single), new SendOptions().setPartitionId("0"));
        EventDataBatch batch = producer.createBatch(new CreateBatchOptions().setPartitionId("1"));
        for (int each = 0; each < 3; each++) {
            batch.tryAdd(new EventData("java " + each));
        }
        producer.send(batch);
        producer.send(List.of(new EventData("java keyed")), new SendOptions().setPartitionKey("key"));
        var partition = producer.getPartitionProperties("1");
        tell("partition", Map.of("last", partition.getLastEnqueuedSequenceNumber(),
            "offset", partition.getLastEnqueuedOffset()));
    }

    private EventPosition position() {
        String value = rest.get(3);
        return switch (rest.get(2)) {
            case "offset" -> EventPosition.fromOffsetString(value);
            case "sequence" -> EventPosition.fromSequenceNumber(Long.parseLong(value));
            case "from" -> EventPosition.fromSequenceNumber(Long.parseLong(value), true);
            case "time" -> EventPosition.fromEnqueuedTime(Instant.ofEpochMilli(Long.parseLong(value)));
            default -> EventPosition.earliest();
        };
    }

    private void read(String partition, int count) {
        try (EventHubConsumerClient consumer = client().consumerGroup("$Default").buildConsumerClient()) {
            consumer.receiveFromPartition(partition, count, position(), Duration.ofSeconds(60))
                .forEach(each -> event(partition, each.getData()));
        }
    }

    private void subscribe(String group, int count) throws Exception {
        CountDownLatch left = new CountDownLatch(count);
        EventProcessorClient processor = new EventProcessorClientBuilder().connectionString(connection, hub)
            .consumerGroup(group).checkpointStore(new FileCheckpoints(rest.get(2))).retryOptions(retry(3))
            .loadBalancingStrategy(LoadBalancingStrategy.BALANCED).loadBalancingUpdateInterval(Duration.ofMillis(300))
            .partitionOwnershipExpirationInterval(Duration.ofSeconds(20))
            .initialPartitionEventPosition(partition -> EventPosition.earliest())
            .processEvent(context -> {
                event(context.getPartitionContext().getPartitionId(), context.getEventData());
                context.updateCheckpoint();
                left.countDown();
            })
            .processError(context -> tell("trouble", Map.of("text", String.valueOf(context.getThrowable()))))
            .buildEventProcessorClient();
        processor.start();
        left.await();
        processor.stop();
    }

    private void event(String partition, EventData event) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("partition", partition);
        fields.put("body", event.getBodyAsString());
        fields.put("partitionKey", event.getPartitionKey());
        fields.put("sequenceNumber", event.getSequenceNumber());
        fields.put("offset", event.getOffsetString());
        fields.put("properties", event.getProperties());
        fields.put("enqueued", event.getEnqueuedTime().toEpochMilli());
        tell("message", fields);
    }

    private void tell(String event, Map<String, ?> fields) {
        Map<String, Object> line = new LinkedHashMap<>(Map.of("event", event, "command", number));
        line.putAll(fields);
        try {
            String text = JSON.writeValueAsString(line);
            synchronized (System.out) {
                System.out.println(text);
            }
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }
}
