// An HTTP server on port 8090, for programs.sh: each request computes a hash and allocates some memory.
package main

import (
	"crypto/sha256"
	"fmt"
	"net/http"
)

func main() {
	http.HandleFunc("/", func(writer http.ResponseWriter, request *http.Request) {
		block := make([]byte, 16384)
		sum := sha256.Sum256(block)
		fmt.Fprintf(writer, "%x\n", sum)
	})
	panic(http.ListenAndServe("127.0.0.1:8090", nil))
}
