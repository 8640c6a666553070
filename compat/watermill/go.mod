// Watermill's publisher and subscriber for AMQP, whose tests `make test-clients` runs.
module penstock.example/compat/watermill

go 1.23

require github.com/ThreeDotsLabs/watermill-amqp/v3 v3.0.2
