// The two ends of a long transfer, and a server that echoes, over Go's TLS.
//
//	go-peer echo        -listen A -cert F -key F [-alpn P,...]
//	go-peer bulk-server -listen A -cert F -key F -bytes N -seed S
//	go-peer bulk-client -connect A -sni HOST [-ca F] -bytes N -seed S
//
// In bulk both ends send N bytes that their seed decides, and receive until the other has no more, at the same time.
// A server prints "listening HOST:PORT" and then, as a client does, a line of JSON for every connection that ended.
package main

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"time"
)

// One write is at most four TLS records.
const chunk = 64 << 10

type options struct {
	listen, connect, cert, key, sni, alpn, ca string
	bytes                                     int64
	seed                                      uint64
}

type report struct {
	Peer           string  `json:"peer"`
	Sni            string  `json:"sni"`
	Alpn           string  `json:"alpn"`
	SentBytes      int64   `json:"sentBytes"`
	SentSha256     string  `json:"sentSha256"`
	ReceivedBytes  int64   `json:"receivedBytes"`
	ReceivedSha256 string  `json:"receivedSha256"`
	Seconds        float64 `json:"seconds"`
	Error          string  `json:"error"`
}

func main() {
	if len(os.Args) < 2 {
		fail(fmt.Errorf("echo, bulk-server or bulk-client?"))
	}
	o := options{}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	flags.StringVar(&o.listen, "listen", "127.0.0.1:0", "address to listen on")
	flags.StringVar(&o.connect, "connect", "", "address to dial")
	flags.StringVar(&o.cert, "cert", "", "certificate file")
	flags.StringVar(&o.key, "key", "", "key file")
	flags.StringVar(&o.sni, "sni", "", "server name")
	flags.StringVar(&o.alpn, "alpn", "", "protocols, comma list")
	flags.StringVar(&o.ca, "ca", "", "authority to trust; none: trust anyone")
	flags.Int64Var(&o.bytes, "bytes", 0, "to send")
	flags.Uint64Var(&o.seed, "seed", 1, "of what is sent")
	flags.Parse(os.Args[2:])

	switch os.Args[1] {
	case "echo":
		serve(o, echo)
	case "bulk-server":
		serve(o, func(conn *tls.Conn, result *report) error { return exchange(conn, o, result) })
	case "bulk-client":
		config := &tls.Config{ServerName: o.sni, InsecureSkipVerify: o.ca == "", NextProtos: protocols(o.alpn)}
		if o.ca != "" {
			pem, err := os.ReadFile(o.ca)
			fail(err)
			config.RootCAs = x509.NewCertPool()
			config.RootCAs.AppendCertsFromPEM(pem)
		}
		tcp, err := net.Dial("tcp", o.connect)
		fail(err)
		if !account(tls.Client(tcp, config), func(conn *tls.Conn, result *report) error { return exchange(conn, o, result) }) {
			os.Exit(1)
		}
	default:
		fail(fmt.Errorf("unknown command %q", os.Args[1]))
	}
}

func serve(o options, handle func(*tls.Conn, *report) error) {
	certificate, err := tls.LoadX509KeyPair(o.cert, o.key)
	fail(err)
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: protocols(o.alpn)}
	listener, err := net.Listen("tcp", o.listen)
	fail(err)
	fmt.Println("listening", listener.Addr())
	for {
		tcp, err := listener.Accept()
		fail(err)
		go account(tls.Server(tcp, config), handle)
	}
}

// Does one connection and prints its line. True when it ended well.
func account(conn *tls.Conn, handle func(*tls.Conn, *report) error) bool {
	defer conn.Close()
	result := report{Peer: conn.RemoteAddr().String()}
	started := time.Now()
	err := conn.Handshake()
	if err == nil {
		state := conn.ConnectionState()
		result.Sni, result.Alpn = state.ServerName, state.NegotiatedProtocol
		err = handle(conn, &result)
	}
	if err != nil {
		result.Error = err.Error()
	}
	result.Seconds = time.Since(started).Seconds()
	line, _ := json.Marshal(result)
	fmt.Println(string(line))
	return err == nil
}

func echo(conn *tls.Conn, result *report) error {
	hash := sha256.New()
	count, err := io.Copy(io.MultiWriter(conn, hash), conn)
	result.ReceivedBytes, result.SentBytes = count, count
	result.ReceivedSha256 = hex.EncodeToString(hash.Sum(nil))
	result.SentSha256 = result.ReceivedSha256
	if err != nil {
		return err
	}
	return conn.CloseWrite()
}

func exchange(conn *tls.Conn, o options, result *report) error {
	sent := make(chan error, 1)
	go func() {
		hash := sha256.New()
		source := io.LimitReader(rand.NewChaCha8(sha256.Sum256(fmt.Appendf(nil, "%d", o.seed))), o.bytes)
		count, err := io.CopyBuffer(io.MultiWriter(conn, hash), source, make([]byte, chunk))
		result.SentBytes, result.SentSha256 = count, hex.EncodeToString(hash.Sum(nil))
		if err == nil {
			err = conn.CloseWrite()
		}
		sent <- err
	}()
	hash := sha256.New()
	count, received := io.CopyBuffer(hash, struct{ io.Reader }{conn}, make([]byte, chunk))
	result.ReceivedBytes, result.ReceivedSha256 = count, hex.EncodeToString(hash.Sum(nil))
	if received != nil {
		conn.Close()
		<-sent
		return received
	}
	return <-sent
}

func protocols(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "go-peer:", err)
		os.Exit(1)
	}
}
