// An agent that speaks CONNECT over HTTP/2 without TLS, as Kubermatic's do, with Go's own HTTP/2: several streams at
// once over one connection, each of which sends pseudo-random bytes, closes its side and reads to the end. Prints as
// JSON what each saw.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

// What of the answer is printed; all of it is in the hash.
const maxAnswer = 1 << 10

type report struct {
	Status         int    `json:"status"`
	SentSha256     string `json:"sentSha256"`
	ReceivedBytes  int64  `json:"receivedBytes"`
	ReceivedSha256 string `json:"receivedSha256"`
	Answer         string `json:"answer"`
	Error          string `json:"error"`
}

func main() {
	connect := flag.String("connect", "", "the gateway, host:port")
	authority := flag.String("authority", "", "what to CONNECT to")
	method := flag.String("method", http.MethodConnect, "another method, to be refused")
	header := flag.String("gardener", "", "value of X-Gardener-Destination")
	streams := flag.Int("streams", 1, "at one time")
	size := flag.Int64("size", 0, "bytes that each stream sends")
	timeout := flag.Duration("timeout", 20*time.Second, "for all of it")
	flag.Parse()

	ctx, cancel := context.WithTimeout(context.Background(), *timeout)
	defer cancel()
	var dialled atomic.Int32
	transport := &http2.Transport{
		AllowHTTP:       true,
		ReadIdleTimeout: 120 * time.Second,
		DialTLSContext: func(ctx context.Context, network, _ string, _ *tls.Config) (net.Conn, error) {
			dialled.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, *connect)
		},
	}
	reports := make([]report, *streams)
	var all sync.WaitGroup
	for index := range reports {
		all.Go(func() {
			request := newRequest(ctx, *method, *authority, *header)
			if err := visit(transport, request, uint64(index), *size, &reports[index]); err != nil {
				reports[index].Error = err.Error()
			}
		})
	}
	all.Wait()
	json.NewEncoder(os.Stdout).Encode(map[string]any{"connections": dialled.Load(), "streams": reports})
}

func newRequest(ctx context.Context, method, authority, gardener string) *http.Request {
	target := &url.URL{Scheme: "http", Host: authority}
	if method != http.MethodConnect {
		target.Path = "/"
	}
	request := (&http.Request{Method: method, URL: target, Host: authority, Header: http.Header{}}).WithContext(ctx)
	if gardener != "" {
		request.Header.Set("X-Gardener-Destination", gardener)
	}
	return request
}

func visit(transport *http2.Transport, request *http.Request, seed uint64, size int64, result *report) error {
	body, pipe := io.Pipe()
	if request.Method == http.MethodConnect {
		request.Body = body
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	result.Status = response.StatusCode

	sentHash := sha256.New()
	sent := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.MultiWriter(pipe, sentHash), io.LimitReader(rand.NewChaCha8(seedBytes(seed)), size))
		pipe.Close()
		sent <- err
	}()
	hash := sha256.New()
	kept := &bytes.Buffer{}
	result.ReceivedBytes, err = io.Copy(io.MultiWriter(hash, &limitedWriter{kept, maxAnswer}), response.Body)
	result.ReceivedSha256 = hex.EncodeToString(hash.Sum(nil))
	if size == 0 || response.StatusCode != http.StatusOK {
		result.Answer = kept.String()
	}
	if err != nil {
		pipe.CloseWithError(err)
		<-sent
		return err
	}
	if response.StatusCode != http.StatusOK {
		return nil
	}
	err = <-sent
	result.SentSha256 = hex.EncodeToString(sentHash.Sum(nil))
	return err
}

func seedBytes(seed uint64) [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%d", seed))
}

type limitedWriter struct {
	to   *bytes.Buffer
	left int
}

func (w *limitedWriter) Write(p []byte) (int, error) {
	part := p[:min(len(p), w.left)]
	w.left -= len(part)
	w.to.Write(part)
	return len(p), nil
}
