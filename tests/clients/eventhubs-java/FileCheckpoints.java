import com.azure.messaging.eventhubs.CheckpointStore;
import com.azure.messaging.eventhubs.models.Checkpoint;
import com.azure.messaging.eventhubs.models.PartitionOwnership;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Checkpoints in a file (partition: sequence number), so that the next process begins where this one ended. */
final class FileCheckpoints implements CheckpointStore {
    private static final ObjectMapper JSON = new ObjectMapper();
    private final Map<String, PartitionOwnership> owners = new TreeMap<>();
    private final Map<String, Long> checkpoints = new TreeMap<>();
    private final Path file;

    FileCheckpoints(String file) throws IOException {
        this.file = Path.of(file);
        if (Files.exists(this.file)) {
            Map<?, ?> read = JSON.readValue(new File(file), Map.class);
            read.forEach((partition, at) -> checkpoints.put((String) partition, ((Number) at).longValue()));
        }
    }

    @Override
    public synchronized Flux<PartitionOwnership> listOwnership(String namespace, String hub, String group) {
        return Flux.fromIterable(new ArrayList<>(owners.values()));
    }

    @Override
    public synchronized Flux<PartitionOwnership> claimOwnership(List<PartitionOwnership> wanted) {
        for (PartitionOwnership each : wanted) {
            each.setETag(UUID.randomUUID().toString()).setLastModifiedTime(System.currentTimeMillis());
            owners.put(each.getPartitionId(), each);
        }
        return Flux.fromIterable(wanted);
    }

    @Override
    public synchronized Flux<Checkpoint> listCheckpoints(String namespace, String hub, String group) {
        List<Checkpoint> known = new ArrayList<>();
        checkpoints.forEach((partition, at) -> known.add(new Checkpoint().setFullyQualifiedNamespace(namespace)
            .setEventHubName(hub).setConsumerGroup(group).setPartitionId(partition).setSequenceNumber(at)));
        return Flux.fromIterable(known);
    }

    @Override
    public synchronized Mono<Void> updateCheckpoint(Checkpoint checkpoint) {
        checkpoints.put(checkpoint.getPartitionId(), checkpoint.getSequenceNumber());
        Path fresh = file.resolveSibling(file.getFileName() + ".new");
        try {
            Files.write(fresh, JSON.writeValueAsBytes(checkpoints));
            Files.move(fresh, file, StandardCopyOption.ATOMIC_MOVE);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return Mono.empty();
    }
}
