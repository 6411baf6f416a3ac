package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	health "google.golang.org/grpc/health/grpc_health_v1"
	reflection "google.golang.org/grpc/reflection/grpc_reflection_v1"
	alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
)

var services = []string{
	"envoy.service.ratelimit.v3.RateLimitService",
	"envoy.service.rate_limit_quota.v3.RateLimitQuotaService",
	"grpc.health.v1.Health",
}

const serving = health.HealthCheckResponse_SERVING

func checkHealth(ctx context.Context, addresses []string) error {
	conn, err := dial(addresses[0])
	if err != nil {
		return err
	}
	defer conn.Close()
	client := health.NewHealthClient(conn)
	for _, service := range append([]string{""}, services...) {
		answer, err := client.Check(ctx, &health.HealthCheckRequest{Service: service})
		if err != nil || answer.Status != serving {
			return fmt.Errorf("%q: %v %v", service, answer, err)
		}
	}
	_, err = client.Check(ctx, &health.HealthCheckRequest{Service: "none"})
	if err := wantCode("no such service", err, codes.NotFound); err != nil {
		return err
	}
	list, err := client.List(ctx, &health.HealthListRequest{})
	if err != nil {
		return err
	}
	for _, service := range services {
		if list.Statuses[service].GetStatus() != serving {
			return fmt.Errorf("listed: %v", list.Statuses)
		}
	}
	watch, err := client.Watch(ctx, &health.HealthCheckRequest{})
	if err != nil {
		return err
	}
	if answer, err := watch.Recv(); err != nil || answer.Status != serving {
		return fmt.Errorf("watched: %v %v", answer, err)
	}
	return nil
}

func listV1(ctx context.Context, conn *grpc.ClientConn) ([]string, error) {
	stream, err := reflection.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		return nil, err
	}
	if err := stream.Send(&reflection.ServerReflectionRequest{
		MessageRequest: &reflection.ServerReflectionRequest_ListServices{}}); err != nil {
		return nil, err
	}
	answer, err := stream.Recv()
	var names []string
	for _, service := range answer.GetListServicesResponse().GetService() {
		names = append(names, service.Name)
	}
	return names, err
}

func listAlpha(ctx context.Context, conn *grpc.ClientConn) ([]string, error) {
	stream, err := alpha.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		return nil, err
	}
	if err := stream.Send(&alpha.ServerReflectionRequest{
		MessageRequest: &alpha.ServerReflectionRequest_ListServices{}}); err != nil {
		return nil, err
	}
	answer, err := stream.Recv()
	var names []string
	for _, service := range answer.GetListServicesResponse().GetService() {
		names = append(names, service.Name)
	}
	return names, err
}

func checkReflection(ctx context.Context, addresses []string) error {
	conn, err := dial(addresses[0])
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, list := range []func(context.Context, *grpc.ClientConn) ([]string, error){listV1, listAlpha} {
		names, err := list(ctx, conn)
		if err != nil {
			return err
		}
		for _, service := range services {
			if !slices.Contains(names, service) {
				return fmt.Errorf("%s is not among %v", service, names)
			}
		}
	}
	return nil
}

func checkDeadline(ctx context.Context, addresses []string) error {
	conn, err := dial(addresses[0])
	if err != nil {
		return err
	}
	defer conn.Close()
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	watch, err := health.NewHealthClient(conn).Watch(short, &health.HealthCheckRequest{})
	if err != nil {
		return err
	}
	if _, err := watch.Recv(); err != nil {
		return err
	}
	_, err = watch.Recv()
	return wantCode("a watch that has a deadline", err, codes.DeadlineExceeded)
}
