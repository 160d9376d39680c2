// A queue in Go for benchmarks: the bare JSON of the original programs with a connection for each message, one queue,
// and none of the rules of a work queue beside that. It shows what Go's runtime takes for these connections.
//
// Usage: bare_reference READY; it listens on two free ports and writes {"queue-clients": [...], "queue-backends": [...]}.
package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"time"
)

type request struct {
	Queue string
	Args  []string
	Limit float64
}

type work struct {
	Error string
	Args  []string
	Limit float64
	Empty bool
}

type result struct {
	Pod, Node, Device, Error   string
	Timeout, Runtime, Waittime float64
	Retcode                    int
}

type job struct {
	request request
	put     time.Time
	taken   time.Time
	ended   chan result
}

var waiting = make(chan *job, 100000)

// A client: its request, and the result when there is one.
func serveClient(connection net.Conn) {
	defer connection.Close()
	one := &job{put: time.Now(), ended: make(chan result, 1)}
	if json.NewDecoder(connection).Decode(&one.request) != nil {
		return
	}
	waiting <- one
	ended := <-one.ended
	ended.Waittime = one.taken.Sub(one.put).Seconds()
	send(connection, ended)
}

// A backend: a job, and its result; or no job.
func serveBackend(connection net.Conn) {
	defer connection.Close()
	decoder := json.NewDecoder(connection)
	var ask request
	if decoder.Decode(&ask) != nil {
		return
	}
	select {
	case one := <-waiting:
		one.taken = time.Now()
		send(connection, work{Args: one.request.Args, Limit: one.request.Limit})
		var ended result
		if decoder.Decode(&ended) == nil {
			one.ended <- ended
		} else {
			waiting <- one
		}
	default:
		send(connection, work{Error: "Queue '" + ask.Queue + "' is empty", Empty: true})
	}
}

func send(connection net.Conn, content any) {
	text, _ := json.MarshalIndent(content, "", "\t")
	connection.Write(text)
}

func listen(serve func(net.Conn)) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			if connection, err := listener.Accept(); err == nil {
				go serve(connection)
			}
		}
	}()
	return listener.Addr().String()
}

func main() {
	clients, backends := listen(serveClient), listen(serveBackend)
	ready := fmt.Sprintf(`{"queue-clients": [%q], "queue-backends": [%q]}`, clients, backends)
	if err := os.WriteFile(os.Args[1]+".new", []byte(ready), 0o644); err != nil {
		panic(err)
	}
	os.Rename(os.Args[1]+".new", os.Args[1])
	select {}
}
