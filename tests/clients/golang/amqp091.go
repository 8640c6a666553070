// amqp091-go: the driver.
package main

import (
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

const window = 50 // Publishes that may be unconfirmed at once.

func holdAmqp091(asked task) {
	version("github.com/rabbitmq/amqp091-go")
	publishing := connect(asked.url)
	consuming := publishing
	if asked.way != "confirms" {
		consuming = connect(asked.url)
	}
	go consume(need(consuming.Channel()), asked.beside)
	channel := need(publishing.Channel())
	go publish(channel, asked)
	untilAskedToLeave()
	_, _ = channel.QueueDeclarePassive(asked.held, false, false, false, false, nil) // A refusal comes before the answer.
	_ = consuming.Close()
	_ = publishing.Close()
}

func connect(url string) *amqp.Connection {
	connection := need(amqp.Dial(url))
	reportBlocks(connection)
	report(connection.NotifyClose(make(chan *amqp.Error, 1)))
	return connection
}

// reportBlocks tells connection.blocked and connection.unblocked.
func reportBlocks(connection *amqp.Connection) {
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
			return
		}
		received(delivery.Body)
	}
}

func publish(channel *amqp.Channel, asked task) {
	confirms := asked.way == "confirms"
	report(channel.NotifyClose(make(chan *amqp.Error, 1)))
	if confirms {
		if err := channel.Confirm(false); err != nil {
			panic(err)
		}
	}
	room := make(chan bool, window)
	var answers sync.WaitGroup
	for number := range asked.count {
		room <- true
		message := amqp.Publishing{Body: asked.body(number)}
		confirmation, err := channel.PublishWithDeferredConfirm("", asked.held, false, false, message)
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
