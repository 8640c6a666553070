// The Go client whose tests `make test-clients` runs, and what they need; go.sum has their hashes.
module penstock.example/compat/amqp091

go 1.20

require (
	github.com/rabbitmq/amqp091-go v1.16.0
	go.uber.org/goleak v1.3.0
)
