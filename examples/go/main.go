// Pages through a pool of proxies: next, use, report. Needs nothing but Go.
//
// usage: kova-example URL…   prints a line for each page. Exit status 75: no endpoint now, ask again later; 69: no agent; 1: no page
// KOVA_URL  KOVA_TOKEN       the agent, http://127.0.0.1:7412 unless set, and the token that it wants, if any
// KOVA_WAIT_MS               how long to wait for an endpoint: 30000 fits a batch job; 0 is for where somebody waits for the answer
// KOVA_WHEN_AWAY             what is done without an agent: "stop", the default, or "direct"
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

const tries = 5

type given struct {
	Ticket    string `json:"ticket"`
	Address   string `json:"address"`
	Endpoint  string `json:"endpoint"`
	Paused    string `json:"paused"`
	RetryInMS int64  `json:"retry_in_ms"`
}

type result struct {
	Ticket     string `json:"ticket"`
	Outcome    string `json:"outcome"`
	Status     int    `json:"status,omitempty"`
	RetryAfter string `json:"retry_after,omitempty"`
}

// The pool has no endpoint now.
type paused struct {
	why     string
	retryIn time.Duration // negative: nobody knows
}

func (p *paused) Error() string { return fmt.Sprintf("paused: %s, retry in %v", p.why, p.retryIn) }

var errAway = errors.New("the agent is away")

func getenv(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

type pool struct {
	url    string
	waitMS int
	agent  *http.Client
	site   *http.Client
}

type proxyKey struct{}

func newPool() (*pool, error) {
	waitMS, err := strconv.Atoi(getenv("KOVA_WAIT_MS", "30000"))
	if err != nil {
		return nil, err
	}
	site := http.DefaultTransport.(*http.Transport).Clone() // keeps connections by the proxy that they go through
	site.Proxy = func(r *http.Request) (*url.URL, error) {
		proxy, _ := r.Context().Value(proxyKey{}).(*url.URL)
		return proxy, nil
	}
	return &pool{
		url:    getenv("KOVA_URL", "http://127.0.0.1:7412") + "/v1/pools/exits",
		waitMS: waitMS,
		agent:  &http.Client{Transport: &http.Transport{}},
		site:   &http.Client{Transport: site},
	}, nil
}

func (p *pool) ask(ctx context.Context, path string, body any, answer any) (int, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+path, bytes.NewReader(text))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	if token := os.Getenv("KOVA_TOKEN"); token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := p.agent.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	return response.StatusCode, json.NewDecoder(response.Body).Decode(answer)
}

func (p *pool) next(ctx context.Context, target string) (*given, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(p.waitMS)*time.Millisecond+5*time.Second)
	defer cancel()
	var g given
	status, err := p.ask(ctx, "/next", map[string]any{"target": target, "wait_ms": p.waitMS}, &g)
	switch {
	case g.Paused != "":
		return nil, &paused{g.Paused, time.Duration(g.RetryInMS) * time.Millisecond}
	case err == nil && status == http.StatusOK:
		return &g, nil
	// Yours to choose: to stop keeps every limit; to go on leaves this machine's own address to the site, and nobody counts.
	case err != nil && os.Getenv("KOVA_WHEN_AWAY") == "direct":
		return &given{Endpoint: "direct"}, nil
	case err != nil:
		return nil, errAway
	}
	return nil, fmt.Errorf("the agent answers %d", status)
}

func (p *pool) report(r result) {
	if r.Ticket == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var answer struct{}
	_, _ = p.ask(ctx, "/report", r, &answer) // otherwise the ticket's lease ends by itself
}

// What a challenge looks like depends on the site: that line is yours.
func outcomeOf(status int, page []byte) string {
	switch {
	case status == http.StatusForbidden || status == http.StatusTooManyRequests:
		return "blocked"
	case status == http.StatusProxyAuthRequired:
		return "auth"
	case status >= 400:
		return "target"
	case bytes.Contains(page, []byte("captcha")):
		return "captcha"
	case len(page) == 0:
		return "empty"
	}
	return "ok"
}

// The site's certificate is not accepted, or it speaks something else.
func isWithoutTLS(err error) bool {
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	return errors.As(err, &authority) || errors.As(err, &hostname) || errors.As(err, &invalid) || errors.As(err, &record) ||
		strings.HasSuffix(err.Error(), "server gave HTTP response to HTTPS client")
}

func outcomeOfError(err error, https bool) string {
	var network *net.OpError
	var timeout net.Error
	switch {
	case errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "unsupported protocol scheme"):
		return "cancelled"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case isWithoutTLS(err):
		return "target"
	case strings.HasSuffix(err.Error(), http.StatusText(http.StatusProxyAuthRequired)):
		return "auth"
	case errors.As(err, &network) || errors.Is(err, io.EOF) || !https:
		return "refused"
	}
	return "tunnel" // net/http gives the text of the proxy's status
}

// The address of an endpoint as net/http takes it: nil if it does not. Names are left to a SOCKS 5 proxy in any case, but `socks5h`
// is known since Go 1.24 only.
func proxyOf(address string) *url.URL {
	proxy, err := url.Parse(address)
	if err != nil {
		return nil
	}
	switch proxy.Scheme {
	case "socks5h":
		proxy.Scheme = "socks5"
	case "http", "https", "socks5":
	default:
		return nil
	}
	return proxy
}

// With an error there is no page, or only a part of it.
func (p *pool) get(ctx context.Context, target *url.URL, g *given) (result, []byte, error) {
	r := result{Ticket: g.Ticket, Outcome: "cancelled"}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if g.Address != "" {
		proxy := proxyOf(g.Address)
		if proxy == nil {
			return r, nil, errors.New("not an endpoint that net/http can use")
		}
		ctx = context.WithValue(ctx, proxyKey{}, proxy)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return r, nil, err
	}
	response, err := p.site.Do(request)
	if err != nil {
		r.Outcome = outcomeOfError(err, target.Scheme == "https")
		return r, nil, err
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	r.Status, r.RetryAfter = response.StatusCode, response.Header.Get("Retry-After")
	if err != nil {
		r.Outcome = outcomeOfError(err, false)
	} else {
		r.Outcome = outcomeOf(r.Status, page)
	}
	return r, page, err
}

// The page's status, its size and which endpoint got it, of `tries` at most.
func (p *pool) fetch(ctx context.Context, page string) (int, int, string, error) {
	target, err := url.Parse(page)
	if err != nil {
		return 0, 0, "", err
	}
	var r result
	for i := 0; i < tries; i++ {
		g, err := p.next(ctx, target.Hostname())
		if err != nil {
			return 0, 0, "", err
		}
		var text []byte
		r, text, err = p.get(ctx, target, g)
		p.report(r)
		switch {
		case err == nil && (r.Outcome == "ok" || r.Outcome == "target"):
			return r.Status, len(text), g.Endpoint, nil
		case r.Outcome == "target" || r.Outcome == "cancelled": // without a page, what no other endpoint would mend
			return 0, 0, "", fmt.Errorf("%s: %w", r.Outcome, err)
		}
	}
	return 0, 0, "", errors.New(r.Outcome)
}

func (p *pool) patiently(ctx context.Context, page string) error {
	for {
		status, size, endpoint, err := p.fetch(ctx, page)
		var pause *paused
		if err == nil {
			fmt.Println(status, page, size, "by", endpoint)
			return nil
		} else if !errors.As(err, &pause) || p.waitMS == 0 {
			return err
		}
		fmt.Fprintln(os.Stderr, err)
		if pause.retryIn < time.Second {
			pause.retryIn = time.Second
		}
		time.Sleep(pause.retryIn)
	}
}

func fail(err error) {
	var pause *paused
	fmt.Fprintln(os.Stderr, err)
	switch {
	case errors.As(err, &pause):
		os.Exit(75)
	case errors.Is(err, errAway):
		os.Exit(69)
	}
	os.Exit(1)
}

func main() {
	p, err := newPool()
	if err != nil {
		fail(err)
	}
	for _, page := range os.Args[1:] {
		if err := p.patiently(context.Background(), page); err != nil {
			fail(err)
		}
	}
}
