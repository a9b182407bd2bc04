module causeway.dev/bench/tls

go 1.25
