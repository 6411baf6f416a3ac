// go-redis: the job and the answer of ../python/client.py.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/redis/go-redis/v9"
)

type job struct {
	Port     int     `json:"port"`
	Protocol int     `json:"protocol"`
	Token    string  `json:"token"`
	Commands [][]any `json:"commands"`
}

type answer struct {
	Single   []any `json:"single"`
	Pipeline []any `json:"pipeline"`
}

func plain(cmd *redis.Cmd) any {
	reply, err := cmd.Result()
	if err == redis.Nil {
		return nil
	}
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	return reply
}

func main() {
	var j job
	if err := json.NewDecoder(os.Stdin).Decode(&j); err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{
		Addr: fmt.Sprintf("127.0.0.1:%d", j.Port), Protocol: j.Protocol, Password: j.Token,
	})
	defer client.Close()

	var a answer
	for _, words := range j.Commands {
		a.Single = append(a.Single, plain(client.Do(ctx, words...)))
	}
	pipe := client.Pipeline()
	var piped []*redis.Cmd
	for _, words := range j.Commands {
		piped = append(piped, pipe.Do(ctx, words...))
	}
	_, _ = pipe.Exec(ctx) // each command's own error is in its answer
	for _, cmd := range piped {
		a.Pipeline = append(a.Pipeline, plain(cmd))
	}
	if err := json.NewEncoder(os.Stdout).Encode(a); err != nil {
		log.Fatal(err)
	}
}
