// A TLS client as Kubernetes' own are: Go's standard library with its defaults, so with a post-quantum key share in
// a hello of about 1.5 KiB. Sends what it reads from stdin, or -size pseudo-random bytes, and prints as JSON what it
// saw.
package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"reflect"
	"strings"
	"time"
)

// What of the answer is printed; all of it is in the hash.
const maxAnswer = 1 << 20

type report struct {
	Handshake      bool   `json:"handshake"`
	Version        string `json:"version"`
	Curve          string `json:"curve"`
	Alpn           string `json:"alpn"`
	Alert          *int   `json:"alert"`
	Error          string `json:"error"`
	SentBytes      int64  `json:"sentBytes"`
	SentSha256     string `json:"sentSha256"`
	ReceivedBytes  int64  `json:"receivedBytes"`
	ReceivedSha256 string `json:"receivedSha256"`
	Answer         []byte `json:"answer"`
}

func main() {
	connect := flag.String("connect", "", "address to dial, host:port")
	sni := flag.String("sni", "", "server name; none: the IP address dialled, which is not sent")
	alpn := flag.String("alpn", "", "protocols to offer, comma list")
	ca := flag.String("ca", "", "file with the authority to trust; none: trust anyone")
	size := flag.Int64("size", -1, "send this many pseudo-random bytes instead of stdin")
	seed := flag.Uint64("seed", 1, "of those bytes")
	answer := flag.Int64("answer", -1, "close after this many bytes have come; default: when the server closes")
	halfClose := flag.Bool("half-close", false, "close the sending side after the last byte")
	timeout := flag.Duration("timeout", 20*time.Second, "for all of it")
	flag.Parse()

	config, err := tlsConfig(*connect, *sni, *alpn, *ca)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(64)
	}
	var input io.Reader = os.Stdin
	if *size >= 0 {
		input = io.LimitReader(rand.NewChaCha8(seedBytes(*seed)), *size)
	}
	result := report{}
	if err := visit(*connect, config, input, *answer, *halfClose, *timeout, &result); err != nil {
		result.Error = err.Error()
		result.Alert = alertOf(err)
	}
	json.NewEncoder(os.Stdout).Encode(result)
}

func visit(address string, config *tls.Config, input io.Reader, answer int64, halfClose bool, timeout time.Duration, result *report) error {
	tcp, err := net.DialTimeout("tcp", address, timeout)
	if err != nil {
		return err
	}
	defer tcp.Close()
	tcp.SetDeadline(time.Now().Add(timeout))
	conn := tls.Client(tcp, config)
	if err := conn.Handshake(); err != nil {
		return err
	}
	state := conn.ConnectionState()
	result.Handshake = true
	result.Version = tls.VersionName(state.Version)
	result.Curve = state.CurveID.String()
	result.Alpn = state.NegotiatedProtocol

	sent := make(chan error, 1)
	sentHash := sha256.New()
	go func() {
		count, err := io.Copy(io.MultiWriter(conn, sentHash), input)
		result.SentBytes = count
		if err == nil && halfClose {
			// Both kinds of end: close_notify, and TCP's own.
			if err = conn.CloseWrite(); err == nil {
				err = tcp.(*net.TCPConn).CloseWrite()
			}
		}
		sent <- err
	}()

	var source io.Reader = conn
	if answer >= 0 {
		source = io.LimitReader(conn, answer)
	}
	hash := sha256.New()
	kept := &bytes.Buffer{}
	result.ReceivedBytes, err = io.Copy(io.MultiWriter(hash, &limitedWriter{kept, maxAnswer}), source)
	result.ReceivedSha256 = hex.EncodeToString(hash.Sum(nil))
	result.Answer = kept.Bytes()
	if err != nil {
		tcp.Close()
		<-sent
		return err
	}
	err = <-sent
	result.SentSha256 = hex.EncodeToString(sentHash.Sum(nil))
	conn.Close()
	return err
}

func tlsConfig(address, sni, alpn, ca string) (*tls.Config, error) {
	config := &tls.Config{ServerName: sni, InsecureSkipVerify: ca == ""}
	if sni == "" {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		if net.ParseIP(host) == nil {
			return nil, fmt.Errorf("without -sni an IP address must be dialled: current value is %q", host)
		}
		config.ServerName = host
	}
	if alpn != "" {
		config.NextProtos = strings.Split(alpn, ",")
	}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AppendCertsFromPEM(pem)
	}
	return config, nil
}

// crypto/tls tells of a received alert by net.OpError{Op: "remote error"} with the alert in a uint8 type of its own.
func alertOf(err error) *int {
	var remote *net.OpError
	if !errors.As(err, &remote) || remote.Op != "remote error" {
		return nil
	}
	value := reflect.ValueOf(remote.Err)
	if value.Kind() != reflect.Uint8 {
		return nil
	}
	number := int(value.Uint())
	return &number
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
