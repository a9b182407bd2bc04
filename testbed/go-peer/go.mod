module causeway.dev/testbed/go-peer

go 1.25
