package main

import (
	"context"
	"fmt"
	"strings"

	descriptor "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	ok   = rls.RateLimitResponse_OK
	over = rls.RateLimitResponse_OVER_LIMIT
)

func of(pairs ...string) *descriptor.RateLimitDescriptor {
	d := &descriptor.RateLimitDescriptor{}
	for i := 0; i < len(pairs); i += 2 {
		d.Entries = append(d.Entries, &descriptor.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return d
}

func withHits(d *descriptor.RateLimitDescriptor, hits uint64) *descriptor.RateLimitDescriptor {
	d.HitsAddend = wrapperspb.UInt64(hits)
	return d
}

func withLimit(d *descriptor.RateLimitDescriptor, n uint32, unit typev3.RateLimitUnit) *descriptor.RateLimitDescriptor {
	d.Limit = &descriptor.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: n, Unit: unit}
	return d
}

type rlsCase struct {
	what        string
	request     *rls.RateLimitRequest
	overall     rls.RateLimitResponse_Code
	codes       []rls.RateLimitResponse_Code
	remaining   []uint32
	currentName string // of the first
}

func rlsRequest(hits uint32, descriptors ...*descriptor.RateLimitDescriptor) *rls.RateLimitRequest {
	return &rls.RateLimitRequest{Domain: "edge", HitsAddend: hits, Descriptors: descriptors}
}

// Five an hour for each ip; a tenant 10 and a user 3 an hour.
var rlsCases = []rlsCase{
	{"one", rlsRequest(0, of("ip", "a")), ok, []rls.RateLimitResponse_Code{ok}, []uint32{4}, "ip"},
	{"hits of the request", rlsRequest(3, of("ip", "a")), ok, []rls.RateLimitResponse_Code{ok}, []uint32{1}, "ip"},
	{"more than is left", rlsRequest(2, of("ip", "a")), over, []rls.RateLimitResponse_Code{over}, []uint32{1}, "ip"},
	{"hits of a descriptor", rlsRequest(9, withHits(of("ip", "b"), 2)), ok, []rls.RateLimitResponse_Code{ok}, []uint32{3}, "ip"},
	{"none of all is charged", rlsRequest(0, of("ip", "c"), withHits(of("ip", "a"), 2)), over,
		[]rls.RateLimitResponse_Code{ok, over}, []uint32{5, 1}, "ip"},
	{"levels", rlsRequest(0, of("tenant", "t", "user", "u")), ok, []rls.RateLimitResponse_Code{ok}, []uint32{2}, "user"},
	{"in order only", rlsRequest(0, of("user", "u", "tenant", "t")), ok, []rls.RateLimitResponse_Code{ok}, []uint32{0}, ""},
	{"a limit of its own", rlsRequest(0, withLimit(of("ip", "d"), 2, typev3.RateLimitUnit_MINUTE)), ok,
		[]rls.RateLimitResponse_Code{ok}, []uint32{1}, "ip"},
	{"banned", rlsRequest(0, of("ip", "banned")), over, []rls.RateLimitResponse_Code{over}, []uint32{0}, ""},
	{"unlimited", rlsRequest(1000, of("ip", "free")), ok, []rls.RateLimitResponse_Code{ok}, []uint32{1<<32 - 1}, ""},
}

func (c *rlsCase) check(answer *rls.RateLimitResponse) error {
	if answer.OverallCode != c.overall || len(answer.Statuses) != len(c.codes) {
		return fmt.Errorf("%s: %v", c.what, answer)
	}
	for i, s := range answer.Statuses {
		if s.Code != c.codes[i] || s.LimitRemaining != c.remaining[i] {
			return fmt.Errorf("%s: status %d is %v", c.what, i, s)
		}
	}
	first := answer.Statuses[0]
	if first.GetCurrentLimit().GetName() != c.currentName {
		return fmt.Errorf("%s: the limit is %v", c.what, first.CurrentLimit)
	}
	if c.currentName != "" && c.remaining[0] < 5 && first.DurationUntilReset.AsDuration() <= 0 {
		return fmt.Errorf("%s: it is full again in %v", c.what, first.DurationUntilReset)
	}
	return nil
}

func checkHeaders(answer *rls.RateLimitResponse) error {
	fields := map[string]string{}
	for _, h := range answer.ResponseHeadersToAdd {
		fields[h.Key] = h.Value
	}
	if fields["ratelimit-policy"] != `"ip";q=5;w=3600` || !strings.HasPrefix(fields["ratelimit"], `"ip";r=0;t=`) ||
		fields["retry-after"] == "" {
		return fmt.Errorf("headers: %v", fields)
	}
	return nil
}

func checkRLS(ctx context.Context, addresses []string) error {
	conn, err := dial(addresses[0])
	if err != nil {
		return err
	}
	defer conn.Close()
	client := rls.NewRateLimitServiceClient(conn)
	for i := range rlsCases {
		answer, err := client.ShouldRateLimit(ctx, rlsCases[i].request)
		if err != nil {
			return fmt.Errorf("%s: %w", rlsCases[i].what, err)
		}
		if err := rlsCases[i].check(answer); err != nil {
			return err
		}
	}
	if _, err := client.ShouldRateLimit(ctx, rlsRequest(5, of("ip", "full"))); err != nil {
		return err
	}
	answer, err := client.ShouldRateLimit(ctx, rlsRequest(0, of("ip", "full")))
	if err != nil {
		return err
	}
	if err := checkHeaders(answer); err != nil {
		return err
	}
	_, err = client.ShouldRateLimit(ctx, &rls.RateLimitRequest{Domain: "edge"})
	return wantCode("no descriptor", err, codes.InvalidArgument)
}
