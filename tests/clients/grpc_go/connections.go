package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

const maxStreams = 256

// A client may ping as often as the library lets it, and the connection stays.
func checkKeepalive(ctx context.Context, addresses []string) error {
	conn, err := dial(addresses[0], grpc.WithKeepaliveParams(keepalive.ClientParameters{
		Time: 10 * time.Second, Timeout: 5 * time.Second, PermitWithoutStream: true}))
	if err != nil {
		return err
	}
	defer conn.Close()
	client := health.NewHealthClient(conn)
	if _, err := client.Check(ctx, &health.HealthCheckRequest{}); err != nil {
		return err
	}
	idle, cancel := context.WithTimeout(ctx, 12*time.Second)
	defer cancel()
	if conn.WaitForStateChange(idle, connectivity.Ready) {
		return fmt.Errorf("the connection is %v", conn.GetState())
	}
	_, err = client.Check(ctx, &health.HealthCheckRequest{})
	return err
}

func checkLarge(ctx context.Context, addresses []string) error {
	conn, err := dial(addresses[0])
	if err != nil {
		return err
	}
	defer conn.Close()
	client := rls.NewRateLimitServiceClient(conn)
	_, err = client.ShouldRateLimit(ctx, rlsRequest(0, of("ip", strings.Repeat("x", 70000))))
	if err := wantCode("a large message", err, codes.ResourceExhausted); err != nil {
		return err
	}
	_, err = client.ShouldRateLimit(ctx, rlsRequest(0, of("ip", "after the large one")))
	return err
}

// Opens a watch and hears its first answer.
func watchOnce(ctx context.Context, client health.HealthClient) error {
	watch, err := client.Watch(ctx, &health.HealthCheckRequest{})
	if err != nil {
		return err
	}
	_, err = watch.Recv()
	return err
}

func checkMaxStreams(ctx context.Context, addresses []string) error {
	conn, err := dial(addresses[0])
	if err != nil {
		return err
	}
	defer conn.Close()
	client := health.NewHealthClient(conn)
	first, release := context.WithCancel(ctx)
	defer release()
	for i := 0; i < maxStreams; i++ {
		of := ctx
		if i == 0 {
			of = first
		}
		if err := watchOnce(of, client); err != nil {
			return fmt.Errorf("stream %d: %w", i, err)
		}
	}
	short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	if err := wantCode("one more", watchOnce(short, client), codes.DeadlineExceeded); err != nil {
		return err
	}
	release()
	return watchOnce(ctx, client)
}

// The test has the first agent end while calls go on: none of them fails, since GOAWAY says which were not begun.
func checkDrain(ctx context.Context, addresses []string) error {
	where := manual.NewBuilderWithScheme("agents")
	var state resolver.State
	for _, address := range addresses {
		state.Addresses = append(state.Addresses, resolver.Address{Addr: address})
	}
	where.InitialState(state)
	conn, err := dial("agents:///all", grpc.WithResolvers(where))
	if err != nil {
		return err
	}
	defer conn.Close()
	client := rls.NewRateLimitServiceClient(conn)
	var done atomic.Bool
	failed := make(chan error, 4)
	for i := 0; i < cap(failed); i++ {
		go func() {
			var err error
			for err == nil && !done.Load() {
				_, err = client.ShouldRateLimit(ctx, rlsRequest(0, of("ip", "drain")), grpc.WaitForReady(true))
			}
			failed <- err
		}()
	}
	time.Sleep(300 * time.Millisecond)
	if err := told("calling"); err != nil {
		return err
	}
	time.Sleep(300 * time.Millisecond)
	done.Store(true)
	for i := 0; i < cap(failed); i++ {
		if err := <-failed; err != nil {
			return err
		}
	}
	return nil
}
