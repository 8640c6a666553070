// Watermill: the driver. Its subscriber and its publisher have one connection; each publish waits for its confirmation.
package main

import (
	"context"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
)

func holdWatermill(asked task) {
	version("github.com/ThreeDotsLabs/watermill-amqp/v3")
	logger := watermill.NopLogger{}
	config := amqp.NewNonDurableQueueConfig(asked.url)
	config.Publish.ConfirmDelivery = true
	connection := need(amqp.NewConnection(config.Connection, logger))
	reportBlocks(connection.Connection())
	subscriber := need(amqp.NewSubscriberWithConnection(config, logger, connection))
	publisher := need(amqp.NewPublisherWithConnection(config, logger, connection))
	go subscribe(need(subscriber.Subscribe(context.Background(), asked.beside)))
	go publishEach(publisher, asked)
	untilAskedToLeave()
	_ = connection.Close()
}

func subscribe(messages <-chan *message.Message) {
	for each := range messages {
		each.Ack()
		received(each.Payload)
	}
}

func publishEach(publisher *amqp.Publisher, asked task) {
	for number := range asked.count {
		err := publisher.Publish(asked.held, message.NewMessage(watermill.NewUUID(), asked.body(number)))
		if err == nil {
			tell("confirmed", number)
		} else {
			tell("refused", number)
			tell("why", err.Error())
		}
	}
	tell("done", true)
}
