// What Go's own resolver says of each name: its addresses, then its TXT records.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
)

func told(found []string, err error) string {
	var failure *net.DNSError
	if errors.As(err, &failure) {
		if failure.IsNotFound {
			return "not found"
		}
		return err.Error()
	}
	return strings.Join(found, " ")
}

func main() {
	resolver := &net.Resolver{PreferGo: true}
	for _, name := range os.Args[1:] {
		addresses, err := resolver.LookupHost(context.Background(), name)
		fmt.Print(name, " ", told(addresses, err))
		texts, err := resolver.LookupTXT(context.Background(), name)
		fmt.Println(",", told(texts, err))
	}
}
