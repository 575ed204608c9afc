// Package main is azeventhubs, unmodified: it sends what the arguments say, or reads with a processor, and prints JSON
// lines.
//
//	client send CONNECTION HUB
//	client subscribe CONNECTION HUB GROUP COUNT [CHECKPOINTS]
//	client read CONNECTION HUB PARTITION COUNT offset|sequence|from|time|earliest VALUE
package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azeventhubs/v2"
)

var printing sync.Mutex

func tell(event string, fields map[string]any) {
	printing.Lock()
	defer printing.Unlock()
	fields["event"] = event
	if err := json.NewEncoder(os.Stdout).Encode(fields); err != nil {
		panic(err)
	}
}

// fileCheckpoints has the checkpoints in a file, so that the next process begins where this one ended.
type fileCheckpoints struct {
	mutex       sync.Mutex
	owners      map[string]azeventhubs.Ownership
	checkpoints map[string]azeventhubs.Checkpoint
	file        string
}

func (s *fileCheckpoints) ClaimOwnership(_ context.Context, wanted []azeventhubs.Ownership, _ *azeventhubs.ClaimOwnershipOptions) ([]azeventhubs.Ownership, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for at := range wanted {
		wanted[at].LastModifiedTime = time.Now()
		s.owners[wanted[at].PartitionID] = wanted[at]
	}
	return wanted, nil
}

func (s *fileCheckpoints) ListOwnership(context.Context, string, string, string, *azeventhubs.ListOwnershipOptions) ([]azeventhubs.Ownership, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	found := []azeventhubs.Ownership{}
	for _, each := range s.owners {
		found = append(found, each)
	}
	return found, nil
}

func (s *fileCheckpoints) ListCheckpoints(context.Context, string, string, string, *azeventhubs.ListCheckpointsOptions) ([]azeventhubs.Checkpoint, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	found := []azeventhubs.Checkpoint{}
	for _, each := range s.checkpoints {
		found = append(found, each)
	}
	return found, nil
}

func (s *fileCheckpoints) SetCheckpoint(_ context.Context, checkpoint azeventhubs.Checkpoint, _ *azeventhubs.SetCheckpointOptions) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.checkpoints[checkpoint.PartitionID] = checkpoint
	if s.file == "" {
		return nil
	}
	text, err := json.Marshal(s.checkpoints)
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.file+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(s.file+".new", s.file) // whole, even if we are killed
}

func send(ctx context.Context, connection, hub string) error {
	producer, err := azeventhubs.NewProducerClientFromConnectionString(connection, hub, nil)
	if err != nil {
		return err
	}
	defer producer.Close(ctx)
	about, err := producer.GetEventHubProperties(ctx, nil)
	if err != nil {
		return err
	}
	tell("hub", map[string]any{"partitions": about.PartitionIDs})
	zero, one, key := "0", "1", "key"
	batches := []struct {
		options azeventhubs.EventDataBatchOptions
		bodies  []string
	}{
		{azeventhubs.EventDataBatchOptions{PartitionID: &zero}, []string{"go single"}},
		{azeventhubs.EventDataBatchOptions{PartitionID: &one}, []string{"go 0", "go 1", "go 2"}},
		{azeventhubs.EventDataBatchOptions{PartitionKey: &key}, []string{"go keyed"}},
	}
	for _, each := range batches {
		batch, err := producer.NewEventDataBatch(ctx, &each.options)
		if err != nil {
			return err
		}
		for _, body := range each.bodies {
			event := &azeventhubs.EventData{Body: []byte(body)}
			if body == "go single" {
				event.Properties = map[string]any{"color": "red"}
			}
			if err := batch.AddEventData(event, nil); err != nil {
				return err
			}
		}
		if err := producer.SendEventDataBatch(ctx, batch, nil); err != nil {
			return err
		}
	}
	partition, err := producer.GetPartitionProperties(ctx, one, nil)
	if err != nil {
		return err
	}
	tell("partition", map[string]any{"last": partition.LastEnqueuedSequenceNumber, "offset": partition.LastEnqueuedOffset})
	return nil
}

func subscribe(ctx context.Context, connection, hub, group string, count int, file string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	consumer, err := azeventhubs.NewConsumerClientFromConnectionString(connection, hub, group, nil)
	if err != nil {
		return err
	}
	defer consumer.Close(context.Background())
	store := &fileCheckpoints{owners: map[string]azeventhubs.Ownership{}, checkpoints: map[string]azeventhubs.Checkpoint{}, file: file}
	if text, err := os.ReadFile(file); err == nil {
		if err := json.Unmarshal(text, &store.checkpoints); err != nil {
			return err
		}
	}
	processor, err := azeventhubs.NewProcessor(consumer, store, &azeventhubs.ProcessorOptions{
		UpdateInterval:        time.Second,
		LoadBalancingStrategy: azeventhubs.ProcessorStrategyGreedy,
		StartPositions:        azeventhubs.StartPositions{Default: azeventhubs.StartPosition{Earliest: to(true)}},
	})
	if err != nil {
		return err
	}
	got := make(chan int)
	go func() {
		for {
			partition := processor.NextPartitionClient(ctx)
			if partition == nil {
				return
			}
			go read(ctx, partition, got)
		}
	}()
	go func() {
		for left := count; left > 0; left -= <-got {
		}
		stop()
	}()
	if err := processor.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func to(value bool) *bool { return &value }

func read(ctx context.Context, partition *azeventhubs.ProcessorPartitionClient, got chan<- int) {
	defer partition.Close(context.Background())
	for ctx.Err() == nil {
		wait, done := context.WithTimeout(ctx, time.Second)
		events, err := partition.ReceiveEvents(wait, 10, nil)
		done()
		if ctx.Err() != nil { // the processor is over: what its client says of that is no error
			return
		}
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			tell("error", map[string]any{"text": err.Error(), "partition": partition.PartitionID()})
			return
		}
		for _, event := range events {
			tellMessage(partition.PartitionID(), event)
		}
		if len(events) > 0 {
			if err := partition.UpdateCheckpoint(context.Background(), events[len(events)-1], nil); err != nil {
				tell("error", map[string]any{"text": err.Error()})
			}
			got <- len(events)
		}
	}
}

func tellMessage(partition string, event *azeventhubs.ReceivedEventData) {
	key := ""
	if event.PartitionKey != nil {
		key = *event.PartitionKey
	}
	tell("message", map[string]any{
		"partition": partition, "body": string(event.Body), "partitionKey": key,
		"sequenceNumber": event.SequenceNumber, "offset": event.Offset, "properties": event.Properties,
		"enqueued": event.EnqueuedTime.UnixMilli(),
	})
}

func readFrom(ctx context.Context, connection, hub, partition string, count int, kind, value string) error {
	consumer, err := azeventhubs.NewConsumerClientFromConnectionString(connection, hub, "$Default", nil)
	if err != nil {
		return err
	}
	defer consumer.Close(context.Background())
	number, _ := strconv.ParseInt(value, 10, 64)
	at := time.UnixMilli(number)
	position := map[string]azeventhubs.StartPosition{
		"offset":   {Offset: &value},
		"sequence": {SequenceNumber: &number},
		"from":     {SequenceNumber: &number, Inclusive: true},
		"time":     {EnqueuedTime: &at},
		"earliest": {Earliest: to(true)},
	}[kind]
	client, err := consumer.NewPartitionClient(partition, &azeventhubs.PartitionClientOptions{StartPosition: position})
	if err != nil {
		return err
	}
	defer client.Close(context.Background())
	for ; count > 0; count-- {
		events, err := client.ReceiveEvents(ctx, 1, nil)
		if err != nil {
			return err
		}
		tellMessage(partition, events[0])
	}
	return nil
}

func main() {
	ctx, stop := context.WithTimeout(context.Background(), 40*time.Second)
	defer stop()
	arguments := append(os.Args[1:], "", "", "", "")
	count, _ := strconv.Atoi(arguments[4])
	var err error
	switch arguments[0] {
	case "send":
		err = send(ctx, arguments[1], arguments[2])
	case "read":
		err = readFrom(ctx, arguments[1], arguments[2], arguments[3], count, arguments[5], arguments[6])
	default:
		err = subscribe(ctx, arguments[1], arguments[2], arguments[3], count, arguments[5])
	}
	if err != nil {
		tell("error", map[string]any{"text": err.Error()})
		os.Exit(1)
	}
}
