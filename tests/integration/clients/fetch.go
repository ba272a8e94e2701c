// Fetches a URL with the default client, which takes its proxy from the environment.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	response, err := http.Get(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if _, err := io.Copy(os.Stdout, response.Body); err != nil || response.StatusCode != 200 {
		fmt.Fprintln(os.Stderr, response.Status, err)
		os.Exit(1)
	}
}
