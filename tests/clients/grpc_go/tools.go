//go:build tools

// What scripts/clients builds beside the client.
package main

import _ "github.com/fullstorydev/grpcurl/cmd/grpcurl"
