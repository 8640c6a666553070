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

func publish(session *amqp.Session, held string, count int, size int) {
	background := context.Background()
	sender := need(session.NewSender(background, held, nil))
	for number := range count {
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
	}
}

func hold(words []string) {
	tell("version", version())
	background := context.Background()
	url := strings.TrimSuffix(words[0], "/%2F")
	connection := need(amqp.Dial(background, url, nil))
	session := need(connection.NewSession(background, nil))
	go consume(session, words[2])
	go publish(session, words[1], need(strconv.Atoi(words[3])), need(strconv.Atoi(words[4])))
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

func check(url string, name string) {}
