// New TLS connections, both ends in one process: TLS 1.3 with the key exchange that Go has by default (post-quantum, as
// kubectl), a P-256 certificate that is verified, no session tickets. The server says one byte and closes first, as
// servers do, so that no dialling side is left with a port in TIME_WAIT. Prints one JSON line.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// An answer that takes longer counts as an error.
const late = 5 * time.Second

type result struct {
	Event        string             `json:"event"`
	Seconds      float64            `json:"seconds"`
	Busy         float64            `json:"busy"`
	Connections  int                `json:"connections"`
	Failed       int64              `json:"failed"`
	FirstFailure string             `json:"firstFailure"`
	ConnectionUs map[string]float64 `json:"connectionUs"`
}

func main() {
	listen := flag.Int("listen", 0, "port of the server, on 127.0.0.1")
	dial := flag.Int("dial", 0, "port that clients dial, on 127.0.0.1")
	name := flag.String("name", "", "server name")
	clients := flag.Int("clients", 32, "connections at any time")
	seconds := flag.Float64("seconds", 1, "how long")
	cores := flag.Float64("cores", 1, "cores that this program may use")
	flag.Parse()

	server, roots := serverConfig(*name)
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", *listen))
	if err != nil {
		log.Fatal(err)
	}
	go serve(listener, server)

	client := &tls.Config{ServerName: *name, RootCAs: roots, MinVersion: tls.VersionTLS13}
	address := fmt.Sprintf("127.0.0.1:%d", *dial)
	var all []float64
	var failed atomic.Int64
	var first atomic.Pointer[string]
	var lock sync.Mutex
	var group sync.WaitGroup
	busyBefore := cpuSeconds()
	started := time.Now()
	end := started.Add(time.Duration(*seconds * float64(time.Second)))
	for range *clients {
		group.Go(func() {
			var times []float64
			for time.Now().Before(end) {
				begun := time.Now()
				if err := connectOnce(address, client); err != nil {
					text := err.Error()
					first.CompareAndSwap(nil, &text)
					failed.Add(1)
					time.Sleep(time.Millisecond)
					continue
				}
				times = append(times, float64(time.Since(begun).Nanoseconds())/1e3)
			}
			lock.Lock()
			defer lock.Unlock()
			all = append(all, times...)
		})
	}
	group.Wait()
	elapsed := time.Since(started).Seconds()
	slices.Sort(all)
	out := result{
		Event: "result", Seconds: elapsed, Busy: (cpuSeconds() - busyBefore) / elapsed / *cores,
		Connections: len(all), Failed: failed.Load(),
		ConnectionUs: map[string]float64{
			"p50": share(all, 0.5), "p99": share(all, 0.99), "p999": share(all, 0.999), "max": share(all, 1),
		},
	}
	if text := first.Load(); text != nil {
		out.FirstFailure = *text
	}
	json.NewEncoder(os.Stdout).Encode(out)
}

func connectOnce(address string, config *tls.Config) error {
	raw, err := net.DialTimeout("tcp", address, late)
	if err != nil {
		return err
	}
	// Not tls.Conn's Close: its close_notify would meet a socket that is closed, and be answered by a reset.
	defer raw.Close()
	raw.SetDeadline(time.Now().Add(late))
	answer, err := io.ReadAll(tls.Client(raw, config))
	if err == nil && string(answer) != "A" {
		err = fmt.Errorf("the server said %q", answer)
	}
	return err
}

func serve(listener net.Listener, config *tls.Config) {
	for {
		raw, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go func() {
			raw.SetDeadline(time.Now().Add(late))
			connection := tls.Server(raw, config)
			defer connection.Close()
			// Reads nothing: in TLS 1.3 the handshake ends with the client's Finished, which this waits for.
			if connection.Handshake() == nil {
				connection.Write([]byte("A"))
			}
		}()
	}
}

func serverConfig(name string) (*tls.Config, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		log.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		log.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(certificate)
	if err != nil {
		log.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return &tls.Config{
		Certificates:           []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: key}},
		MinVersion:             tls.VersionTLS13,
		SessionTicketsDisabled: true,
	}, roots
}

// Of sorted values.
func share(sorted []float64, part float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(part*float64(len(sorted))))]
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	micros := (usage.Utime.Sec+usage.Stime.Sec)*1e6 + int64(usage.Utime.Usec) + int64(usage.Stime.Usec)
	return float64(micros) / 1e6
}
