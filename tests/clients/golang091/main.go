// amqp091-go as a driver: see tests/clients/drivers/common.py. Usage: program URL HELD BESIDE COUNT SIZE WAY
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

const window = 50 // Publishes that may be unconfirmed at once.

var writing sync.Mutex

func tell(kind string, value any) {
	writing.Lock()
	defer writing.Unlock()
	line, _ := json.Marshal(map[string]any{kind: value})
	fmt.Println(string(line))
}

func need[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, each := range info.Deps {
		if each.Path == "github.com/rabbitmq/amqp091-go" {
			return strings.TrimPrefix(each.Version, "v")
		}
	}
	return "unknown"
}

// connect reports connection.blocked, connection.unblocked and the end of the connection.
func connect(url string) *amqp.Connection {
	connection := need(amqp.Dial(url))
	blocks := connection.NotifyBlocked(make(chan amqp.Blocking, 1))
	go func() {
		for block := range blocks {
			if block.Active {
				tell("blocked", block.Reason)
			} else {
				tell("unblocked", true)
			}
		}
	}()
	report(connection.NotifyClose(make(chan *amqp.Error, 1)))
	return connection
}

// report tells why a connection or channel was closed, if the broker closed it.
func report(closed chan *amqp.Error) {
	go func() {
		if err := <-closed; err != nil {
			tell("failed", err.Error())
		}
	}()
}

func consume(channel *amqp.Channel, beside string) {
	deliveries := need(channel.Consume(beside, "", false, false, false, false, nil))
	for delivery := range deliveries {
		if err := delivery.Ack(false); err != nil {
			return // The connection has been closed.
		}
		tell("received", need(strconv.Atoi(strings.TrimSpace(string(delivery.Body)))))
	}
}

func publish(channel *amqp.Channel, held string, count int, size int, confirms bool) {
	report(channel.NotifyClose(make(chan *amqp.Error, 1)))
	if confirms {
		if err := channel.Confirm(false); err != nil {
			panic(err)
		}
	}
	room := make(chan bool, window)
	var answers sync.WaitGroup
	for number := range count {
		room <- true
		message := amqp.Publishing{Body: fmt.Appendf(nil, "%-*d", size, number)}
		confirmation, err := channel.PublishWithDeferredConfirm("", held, false, false, message)
		if err != nil {
			return // The listener has told why.
		}
		answers.Add(1)
		go func() {
			if confirms && confirmation.Wait() {
				tell("confirmed", number)
			} else if confirms {
				tell("refused", number)
			}
			<-room
			answers.Done()
		}()
	}
	answers.Wait()
	tell("done", true)
}

func main() {
	url, held, beside, confirms := os.Args[1], os.Args[2], os.Args[3], os.Args[6] == "confirms"
	tell("version", version())
	publishing := connect(url)
	consuming := publishing
	if !confirms {
		consuming = connect(url)
	}
	go consume(need(consuming.Channel()), beside)
	channel := need(publishing.Channel())
	go publish(channel, held, need(strconv.Atoi(os.Args[4])), need(strconv.Atoi(os.Args[5])), confirms)
	_, _ = io.Copy(io.Discard, os.Stdin)
	_, _ = channel.QueueDeclarePassive(held, false, false, false, false, nil) // A refusal comes before the answer.
	_ = consuming.Close()
	_ = publishing.Close()
}
