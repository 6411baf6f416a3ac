package main

import (
	"context"
	"fmt"
	"time"

	rlqs "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
)

type quotaStream = rlqs.RateLimitQuotaService_StreamRateLimitQuotasClient

func usage(allowed, denied uint64, pairs ...string) *rlqs.RateLimitQuotaUsageReports_BucketQuotaUsage {
	id := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		id[pairs[i]] = pairs[i+1]
	}
	return &rlqs.RateLimitQuotaUsageReports_BucketQuotaUsage{
		BucketId:    &rlqs.BucketId{Bucket: id},
		TimeElapsed: durationpb.New(time.Second), NumRequestsAllowed: allowed, NumRequestsDenied: denied,
	}
}

func report(stream quotaStream, domain string, usages ...*rlqs.RateLimitQuotaUsageReports_BucketQuotaUsage) error {
	return stream.Send(&rlqs.RateLimitQuotaUsageReports{Domain: domain, BucketQuotaUsages: usages})
}

// assignment returns the last thing that the bucket `key` is told in the next message.
func assignment(stream quotaStream, key, value string) (*typev3.RateLimitStrategy, time.Duration, error) {
	response, err := stream.Recv()
	if err != nil {
		return nil, 0, err
	}
	last := response.BucketAction[len(response.BucketAction)-1]
	if last.BucketId.Bucket[key] != value {
		return nil, 0, fmt.Errorf("it is for another bucket: %v", response)
	}
	told := last.GetQuotaAssignmentAction()
	return told.GetRateLimitStrategy(), told.GetAssignmentTimeToLive().AsDuration(), nil
}

func checkBlanket(stream quotaStream, key, value string, rule typev3.RateLimitStrategy_BlanketRule) error {
	if err := report(stream, "", usage(0, 1, key, value)); err != nil {
		return err
	}
	strategy, ttl, err := assignment(stream, key, value)
	if err != nil {
		return err
	}
	blanket, isBlanket := strategy.Strategy.(*typev3.RateLimitStrategy_BlanketRule_)
	if !isBlanket || blanket.BlanketRule != rule || ttl < time.Second {
		return fmt.Errorf("%s %s is told %v for %v", key, value, strategy, ttl)
	}
	return nil
}

// Of 5 an hour a client may have 1 at a time; what it reports as spent is followed by more, until nothing is left.
func checkAllowances(stream quotaStream) error {
	if err := report(stream, "edge", usage(0, 1, "ip", "quota")); err != nil {
		return err
	}
	var granted uint32
	for {
		strategy, ttl, err := assignment(stream, "ip", "quota")
		if err != nil {
			return err
		}
		bucket := strategy.GetTokenBucket()
		if bucket == nil {
			break // DENY_ALL: it is all gone
		}
		if bucket.MaxTokens == 0 || ttl < time.Second || bucket.FillInterval.AsDuration() < time.Hour {
			return fmt.Errorf("an allowance of %v for %v", bucket, ttl)
		}
		granted += bucket.MaxTokens
		if err := report(stream, "", usage(uint64(bucket.MaxTokens), 1, "ip", "quota")); err != nil {
			return err
		}
	}
	if granted != 5 {
		return fmt.Errorf("%d were granted of 5", granted)
	}
	return nil
}

func checkRLQS(ctx context.Context, addresses []string) error {
	conn, err := dial(addresses[0])
	if err != nil {
		return err
	}
	defer conn.Close()
	client := rlqs.NewRateLimitQuotaServiceClient(conn)
	stream, err := client.StreamRateLimitQuotas(ctx)
	if err != nil {
		return err
	}
	if err := checkAllowances(stream); err != nil {
		return err
	}
	stream, err = client.StreamRateLimitQuotas(ctx)
	if err != nil {
		return err
	}
	if err := report(stream, "edge"); err != nil {
		return err
	}
	for _, c := range []struct {
		key, value string
		rule       typev3.RateLimitStrategy_BlanketRule
	}{
		{"ip", "banned", typev3.RateLimitStrategy_DENY_ALL},
		{"ip", "free", typev3.RateLimitStrategy_ALLOW_ALL},
		{"nobody", "x", typev3.RateLimitStrategy_ALLOW_ALL},
	} {
		if err := checkBlanket(stream, c.key, c.value, c.rule); err != nil {
			return err
		}
		stream.CloseSend()
		if stream, err = client.StreamRateLimitQuotas(ctx); err != nil {
			return err
		}
		if err := report(stream, "edge"); err != nil {
			return err
		}
	}
	if err := report(stream, "other"); err != nil {
		return err
	}
	_, err = stream.Recv()
	return wantCode("another domain", err, codes.InvalidArgument)
}
