// What Go programs use of a kernel: each line told is a thing that works here.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func routines() {
	var sum atomic.Int64
	var all sync.WaitGroup
	for number := range 1000 {
		all.Add(1)
		go func() {
			defer all.Done()
			runtime.Gosched()
			sum.Add(int64(number))
		}()
	}
	all.Wait()
	runtime.GC()
	<-time.After(time.Millisecond)
	if sum.Load() != 499500 {
		panic(sum.Load())
	}
}

func processes() {
	for range 3 {
		must(exec.Command("/proc/self/exe", "child").Run())
	}
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGUSR1)
	must(syscall.Kill(os.Getpid(), syscall.SIGUSR1))
	<-caught
}

func sockets() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	go http.Serve(listener, http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
		answer.Write([]byte("hello"))
	}))
	answer, err := http.Get("http://" + listener.Addr().String())
	must(err)
	body, err := io.ReadAll(answer.Body)
	must(err)
	if string(body) != "hello" {
		panic(string(body))
	}
	_, err = net.ListenPacket("udp", "127.0.0.1:0")
	must(err)
	interfaces, err := net.Interfaces()
	must(err)
	if len(interfaces) == 0 {
		panic("no interface")
	}
}

func files() {
	file, err := os.CreateTemp(".", "check")
	must(err)
	_, err = file.Write(make([]byte, 1<<20))
	must(err)
	must(file.Sync())
	memory, err := syscall.Mmap(int(file.Fd()), 0, 4096, syscall.PROT_READ, syscall.MAP_SHARED)
	must(err)
	must(syscall.Munmap(memory))
	copied, err := os.Create("copied")
	must(err)
	_, err = file.Seek(0, io.SeekStart)
	must(err)
	_, err = io.Copy(copied, file)
	must(err)
	must(os.Remove(file.Name()))
}

func main() {
	if len(os.Args) > 1 {
		return
	}
	routines()
	fmt.Println("go routines")
	processes()
	fmt.Println("go processes")
	sockets()
	fmt.Println("go sockets")
	files()
	fmt.Println("go files")
}
