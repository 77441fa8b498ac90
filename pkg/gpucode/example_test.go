package gpucode

import (
	"bytes"
	"fmt"
)

func Example() {
	fatbin, _ := container(cubin(80), ptx(80, 8, 0)) // as nvcc -fatbin writes it; a library or an archive does as well
	file, err := Read(bytes.NewReader(fatbin), int64(len(fatbin)), fatbin)
	if err != nil {
		fmt.Println(err)
		return
	}
	cuda12, err := ParseVersion("12.4") // of the driver
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, gpu := range []Capability{75, 80, 90} {
		takes, _ := file.Containers[0].On(gpu, cuda12)
		fmt.Println(gpu, takes == Native, takes == Compiled, file.Judge(gpu, cuda12).Error)
	}
	// Output:
	// 7.5 false false 209
	// 8.0 true false 0
	// 9.0 false true 0
}
