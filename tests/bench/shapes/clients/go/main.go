// Sends one message of each shape with go-amqp: `shapes URL ADDRESS`. The order is that of ../../record.py.
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/Azure/go-amqp"
)

func with(change func(*amqp.Message)) *amqp.Message {
	message := amqp.NewMessage(bytes.Repeat([]byte("x"), 100))
	change(message)
	return message
}

func twenty() map[string]any {
	found := map[string]any{}
	for n := 1; n <= 20; n++ {
		found[fmt.Sprintf("name-%02d", n)] = fmt.Sprintf("value-%02d", n)
	}
	return found
}

func full(m *amqp.Message) {
	to, subject, reply, kind, group := "events/orders", "created", "answers/7", "application/json", "customer-7"
	created := time.UnixMilli(1_700_000_000_000)
	m.Header = &amqp.MessageHeader{Durable: true, Priority: 7, TTL: time.Hour}
	m.Properties = &amqp.MessageProperties{
		MessageID: "order-00000017", To: &to, Subject: &subject, ReplyTo: &reply, CorrelationID: uint64(17),
		ContentType: &kind, CreationTime: &created, GroupID: &group,
	}
}

func main() {
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	connection, err := amqp.Dial(ctx, os.Args[1], &amqp.ConnOptions{SASLType: amqp.SASLTypeAnonymous()})
	if err != nil {
		log.Fatal(err)
	}
	session, err := connection.NewSession(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	sender, err := session.NewSender(ctx, os.Args[2], nil)
	if err != nil {
		log.Fatal(err)
	}
	three := map[string]any{"region": "eu-1", "size": int32(17), "urgent": true}
	for _, message := range []*amqp.Message{
		with(func(*amqp.Message) {}),
		amqp.NewMessage(bytes.Repeat([]byte("x"), 1000)),
		with(func(m *amqp.Message) { m.ApplicationProperties = three }),
		with(func(m *amqp.Message) { m.ApplicationProperties = twenty() }),
		with(func(m *amqp.Message) { m.Annotations = amqp.Annotations{"event-streams-group-key": "customer-7"} }),
		{Value: string(bytes.Repeat([]byte("x"), 100))},
		{Value: map[string]any{"region": "eu-1", "size": int64(17), "urgent": true}},
		with(full),
	} {
		if err := sender.Send(ctx, message, nil); err != nil {
			log.Fatal(err)
		}
	}
	connection.Close()
}
