// go-amqp as a driver (see tests/clients/drivers/common.py), and its checks.
// Usage: program hold URL HELD BESIDE COUNT SIZE WAY
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"

	"github.com/Azure/go-amqp"
)

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
		if each.Path == "github.com/Azure/go-amqp" {
			return strings.TrimPrefix(each.Version, "v")
		}
	}
	return "unknown"
}

var arrived = make(chan bool, 1)

func publish(session *amqp.Session, held string, count int, size int, idle bool) {
	background := context.Background()
	sender := need(session.NewSender(background, held, nil))
	for number := range count {
		if number == 1 && idle {
			<-arrived
		}
		// Waits for credit, and for the outcome.
		err := sender.Send(background, amqp.NewMessage(fmt.Appendf(nil, "%-*d", size, number)), nil)
		if err != nil {
			tell("failed", err.Error())
			return
		}
		tell("confirmed", number)
	}
	tell("done", true)
}

func consume(session *amqp.Session, beside string) {
	background := context.Background()
	receiver := need(session.NewReceiver(background, beside, &amqp.ReceiverOptions{Credit: 10}))
	for {
		message, err := receiver.Receive(background, nil)
		if err != nil {
			return // The connection has been closed.
		}
		if err := receiver.AcceptMessage(background, message); err != nil {
			tell("failed", err.Error())
		}
		tell("received", need(strconv.Atoi(strings.TrimSpace(string(message.GetData())))))
		select {
		case arrived <- true:
		default:
		}
	}
}

func hold(words []string) {
	tell("version", version())
	background := context.Background()
	url := strings.TrimSuffix(words[0], "/%2F")
	connection := need(amqp.Dial(background, url, nil))
	session := need(connection.NewSession(background, nil))
	go consume(session, words[2])
	go publish(session, words[1], need(strconv.Atoi(words[3])), need(strconv.Atoi(words[4])), words[5] == "idle")
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = connection.Close()
}

func main() {
	switch os.Args[1] {
	case "hold":
		hold(os.Args[2:])
	case "check":
		check(os.Args[2], os.Args[3])
	}
}

func outcome(session *amqp.Session, address string, message *amqp.Message) string {
	background := context.Background()
	sender := need(session.NewSender(background, address, nil))
	defer func() { _ = sender.Close(background) }()
	receipt := need(sender.SendWithReceipt(background, message, nil))
	state := need(receipt.Wait(background))
	err := sender.Send(background, message, nil)
	return strings.TrimPrefix(fmt.Sprintf("%T", state), "*encoding.State") + map[bool]string{true: "", false: ": error"}[err == nil]
}

// check tells outcomes of messages and of deliveries; the queue of this name dead-letters to another.
func check(url string, name string) {
	background := context.Background()
	connection := need(amqp.Dial(background, url, nil))
	session := need(connection.NewSession(background, nil))
	nowhere := "/queues/" + name + "-nowhere"
	misled := amqp.NewMessage([]byte("c"))
	misled.Properties = &amqp.MessageProperties{To: &nowhere}
	tell("outcomes", []string{
		outcome(session, name, amqp.NewMessage([]byte("a"))),
		outcome(session, "/exchanges/amq.topic/nobody", amqp.NewMessage([]byte("b"))),
		outcome(session, "", misled),
	})
	receiver := need(session.NewReceiver(background, name, &amqp.ReceiverOptions{Credit: -1}))
	counts := []uint32{}
	for number := range 4 {
		if err := receiver.IssueCredit(1); err != nil {
			panic(err)
		}
		message := need(receiver.Receive(background, nil))
		if message.Header == nil {
			message.Header = &amqp.MessageHeader{}
		}
		counts = append(counts, message.Header.DeliveryCount)
		switch number {
		case 0:
			_ = receiver.ReleaseMessage(background, message)
		case 1:
			_ = receiver.ModifyMessage(background, message, &amqp.ModifyMessageOptions{DeliveryFailed: true})
		case 2:
			_ = receiver.RejectMessage(background, message, &amqp.Error{Condition: "example:bad"})
		default:
			_ = receiver.AcceptMessage(background, message)
		}
	}
	tell("counts", counts)
	if err := receiver.IssueCredit(5); err != nil {
		panic(err)
	}
	tell("drained", receiver.DrainCredit(background, nil) == nil)
	dead := need(need(session.NewReceiver(background, name+"-dead", nil)).Receive(background, nil))
	tell("dead", []any{string(dead.GetData()), dead.Annotations["x-rejected-condition"]})
	_ = connection.Close()
}
