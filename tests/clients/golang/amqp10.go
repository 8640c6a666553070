// go-amqp: the driver, and checks.
package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/Azure/go-amqp"
)

var arrived = make(chan bool, 1)

func holdAmqp10(asked task) {
	version("github.com/Azure/go-amqp")
	background := context.Background()
	connection := need(amqp.Dial(background, strings.TrimSuffix(asked.url, "/%2F"), nil))
	session := need(connection.NewSession(background, nil))
	go receive(session, asked.beside)
	go send(session, asked)
	untilAskedToLeave()
	_ = connection.Close()
}

func send(session *amqp.Session, asked task) {
	background := context.Background()
	sender := need(session.NewSender(background, asked.held, nil))
	for number := range asked.count {
		if number == 1 && asked.way == "idle" {
			<-arrived
		}
		// Waits for credit, and for the outcome.
		if err := sender.Send(background, amqp.NewMessage(asked.body(number)), nil); err != nil {
			tell("failed", err.Error())
			return
		}
		tell("confirmed", number)
	}
	tell("done", true)
}

func receive(session *amqp.Session, beside string) {
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
		received(message.GetData())
		select {
		case arrived <- true:
		default:
		}
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
