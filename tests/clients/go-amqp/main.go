package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/Azure/go-amqp"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	ctx := context.Background()
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(must(os.ReadFile(os.Getenv("CA_FILE"))))
	connection := must(amqp.Dial(ctx, os.Getenv("AMQP_URL"), &amqp.ConnOptions{
		SASLType:  amqp.SASLTypePlain("alice", os.Getenv("PASSWORD")),
		TLSConfig: &tls.Config{RootCAs: authorities},
	}))
	defer connection.Close()
	session := must(connection.NewSession(ctx, nil))

	sender := must(session.NewSender(ctx, "events/orders", nil))
	message := amqp.NewMessage([]byte("from go-amqp"))
	message.ApplicationProperties = map[string]any{"color": "white"}
	if err := sender.Send(ctx, message, nil); err != nil {
		panic(err)
	}

	white := amqp.NewLinkFilter("amqp:sql-filter", 0, "d.event-streams-offset > '@earliest' AND color = 'white'")
	receiver := must(session.NewReceiver(ctx, "events/orders", &amqp.ReceiverOptions{Filters: []amqp.LinkFilter{white}}))
	received := must(receiver.Receive(ctx, nil))
	fmt.Println(string(received.GetData()))
	if err := receiver.AcceptMessage(ctx, received); err != nil {
		panic(err)
	}
}
