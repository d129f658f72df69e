// Publishes a delayed message to Leveret's default bridge with amqp091-go, and waits for it.
//
//	AMQP_URI=amqp://guest:guest@localhost:5672/%2f go run .
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	queue    = "leveret-example-go"
	delay    = 1500 * time.Millisecond
	patience = 30 * time.Second
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	uri := os.Getenv("AMQP_URI")
	if uri == "" {
		uri = "amqp://guest:guest@localhost:5672/%2f"
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	connection, err := amqp.Dial(uri)
	if err != nil {
		return err
	}
	defer connection.Close()
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	if _, err := channel.QueueDeclare(queue, true, false, false, false, nil); err != nil {
		return err
	}
	defer channel.QueueDelete(queue, false, false, false)
	deliveries, err := channel.Consume(queue, "", true, false, false, false, nil)
	if err != nil {
		return err
	}

	published := time.Now()
	if err := publishDelayed(ctx, channel, queue, []byte("hello"), delay); err != nil {
		return err
	}

	select {
	case message := <-deliveries:
		waited := time.Since(published)
		fmt.Printf("go: %q after %d ms, x-delay %v\n", message.Body, waited.Milliseconds(), message.Headers["x-delay"])
		if waited < delay {
			return errors.New("too early")
		}
		return nil
	case <-ctx.Done():
		return errors.New("nothing arrived")
	}
}

// publishDelayed returns when the broker has the message, and an error where no bridge takes it.
func publishDelayed(ctx context.Context, channel *amqp.Channel, key string, body []byte, delay time.Duration) error {
	if err := channel.Confirm(false); err != nil {
		return err
	}
	returned := channel.NotifyReturn(make(chan amqp.Return, 1))
	const mandatory, immediate = true, false
	confirm, err := channel.PublishWithDeferredConfirmWithContext(ctx, "delay", key, mandatory, immediate, amqp.Publishing{
		// An int64: a plain int is sent as 32 bits and would wrap after 24 days.
		Headers:      amqp.Table{"x-delay": delay.Milliseconds()},
		DeliveryMode: amqp.Persistent,
		Body:         body,
	})
	if err != nil {
		return err
	}
	confirmed, err := confirm.WaitContext(ctx)
	if err != nil {
		return err
	}
	if !confirmed {
		return errors.New("the broker refused the message")
	}
	// A return comes before its confirm.
	select {
	case back := <-returned:
		return fmt.Errorf("no bridge took the message: %s", back.ReplyText)
	default:
		return nil
	}
}
