//go:build ignore

// Command cdi lets the library of the Container Device Interface, which container runtimes use, put a
// device of the specifications in a directory into a container's configuration, and prints that.
//
//	go run -modfile=tests/tools.mod tests/host/cdi.go DIR DEVICE
package main

import (
	"encoding/json"
	"fmt"
	"os"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
)

func main() {
	cache, err := cdi.NewCache(cdi.WithSpecDirs(os.Args[1]), cdi.WithAutoRefresh(false))
	container := &oci.Spec{Version: oci.Version}
	if err == nil {
		_, err = cache.InjectDevices(container, os.Args[2])
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(container)
	}
	if err != nil {
		fmt.Println(err)
		for file, wrong := range cache.GetErrors() {
			fmt.Println(file, wrong)
		}
		os.Exit(1)
	}
}
