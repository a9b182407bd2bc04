module causeway.dev/testbed/go-client

go 1.25
