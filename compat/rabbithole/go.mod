// The client of RabbitMQ's HTTP API whose tests `make test-clients` runs; its own go.sum has the hashes of what they need.
module penstock.example/compat/rabbithole

go 1.24

require github.com/michaelklishin/rabbit-hole/v3 v3.5.0
