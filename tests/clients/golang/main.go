// Clients written in Go as drivers (see tests/clients/drivers/common.py), and checks of go-amqp.
// Usage: program go-amqp|amqp091-go|watermill URL HELD BESIDE COUNT SIZE WAY, or program check URL NAME
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
)

// task is what a driver is asked to do.
type task struct {
	url, held, beside string
	count, size       int
	way               string
}

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

// version tells the version of the module with this path.
func version(path string) {
	found := "unknown"
	info, _ := debug.ReadBuildInfo()
	for _, each := range info.Deps {
		if each.Path == path {
			found = strings.TrimPrefix(each.Version, "v")
		}
	}
	tell("version", found)
}

// body returns the content of a message: its number, filled up with spaces.
func (asked task) body(number int) []byte {
	return fmt.Appendf(nil, "%-*d", asked.size, number)
}

// received tells the number in a message.
func received(body []byte) {
	tell("received", need(strconv.Atoi(strings.TrimSpace(string(body)))))
}

// untilAskedToLeave returns at the end of the standard input.
func untilAskedToLeave() {
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func main() {
	words := os.Args[2:]
	if os.Args[1] == "check" {
		check(words[0], words[1])
		return
	}
	asked := task{words[0], words[1], words[2], need(strconv.Atoi(words[3])), need(strconv.Atoi(words[4])), words[5]}
	map[string]func(task){"go-amqp": holdAmqp10, "amqp091-go": holdAmqp091, "watermill": holdWatermill}[os.Args[1]](asked)
}
