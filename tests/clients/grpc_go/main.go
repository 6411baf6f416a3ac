// grpc-go against an agent's gRPC port, for tests/system/test_grpc_go.py, which says what the policies are.
//
// usage: grpc_go CHECK ADDRESS... ; exit status 1 and a text when the check fails.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

const patience = 60 * time.Second

var checks = map[string]func(ctx context.Context, addresses []string) error{
	"deadline":    checkDeadline,
	"drain":       checkDrain,
	"health":      checkHealth,
	"keepalive":   checkKeepalive,
	"large":       checkLarge,
	"max-streams": checkMaxStreams,
	"reflection":  checkReflection,
	"rls":         checkRLS,
	"rlqs":        checkRLQS,
}

func dial(address string, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	return grpc.NewClient(address, options...)
}

func wantCode(what string, err error, code codes.Code) error {
	if status.Code(err) != code {
		return fmt.Errorf("%s: %v, not %v", what, err, code)
	}
	return nil
}

// told says a line to the test and waits for its answer.
func told(line string) error {
	fmt.Println(line)
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	return err
}

func main() {
	if len(os.Args) < 3 || checks[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: grpc_go CHECK ADDRESS...")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := checks[os.Args[1]](ctx, os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
