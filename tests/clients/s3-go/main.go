// An S3 server in memory for the suite: gofakes3 behind a check of the access key.
//
// Usage: server HOST:PORT ACCESS_KEY BUCKET
package main

import (
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

const denied = `<?xml version="1.0" encoding="UTF-8"?><Error><Code>InvalidAccessKeyId</Code></Error>`

// known lets requests pass that are signed with this access key.
func known(key string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		if strings.Contains(request.Header.Get("Authorization"), "Credential="+key+"/") {
			next.ServeHTTP(writer, request)
			return
		}
		writer.WriteHeader(http.StatusForbidden)
		io.WriteString(writer, denied)
	})
}

func main() {
	backend := s3mem.New()
	if err := backend.CreateBucket(os.Args[3]); err != nil {
		panic(err)
	}
	panic(http.ListenAndServe(os.Args[1], known(os.Args[2], gofakes3.New(backend).Server())))
}
