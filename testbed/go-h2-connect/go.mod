module causeway.dev/testbed/go-h2-connect

go 1.26.0

require golang.org/x/net v0.61.0

require golang.org/x/text v0.43.0 // indirect
