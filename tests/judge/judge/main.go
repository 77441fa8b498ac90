// Command judge compares an ELF file before an edit with the same file after it, and prints each difference that the
// edit is not about. Its status is 1 where there is one.
//
//	go run ./tests/judge/judge --expect-runpath /some/lib BEFORE AFTER
package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"

	"cuda-runpath/tests/judge"
)

func main() {
	var want judge.Expect
	text := func(name, what string, to **string) {
		flag.Func(name, what, func(s string) error { *to = &s; return nil })
	}
	flag.Func("expect-runpath", "DT_RUNPATH is `LIST` afterwards", func(s string) error {
		want.RunPath = &judge.RunPath{Tag: "RUNPATH", List: s}
		return nil
	})
	flag.Func("expect-rpath", "DT_RPATH is `LIST` afterwards", func(s string) error {
		want.RunPath = &judge.RunPath{Tag: "RPATH", List: s}
		return nil
	})
	flag.BoolFunc("expect-no-runpath", "there is no run path afterwards", func(string) error {
		want.RunPath = &judge.RunPath{}
		return nil
	})
	text("expect-interpreter", "PT_INTERP is `PATH` afterwards", &want.Interpreter)
	text("expect-soname", "DT_SONAME is `NAME` afterwards", &want.Soname)
	flag.Func("expect-needed", "the DT_NEEDED list afterwards, `NAME,NAME…`", func(s string) error {
		names := []string{}
		if s != "" {
			names = strings.Split(s, ",")
		}
		want.Needed = &names
		return nil
	})
	flag.Func("renamed", "version needs of `OLD=NEW` follow", func(s string) error {
		from, to, ok := strings.Cut(s, "=")
		if !ok {
			return fmt.Errorf("want OLD=NEW")
		}
		if want.Renamed == nil {
			want.Renamed = map[string]string{}
		}
		want.Renamed[from] = to
		return nil
	})
	flag.Func("expect-execstack", "the stack is executable afterwards: `BOOL`", func(s string) error {
		v, err := strconv.ParseBool(s)
		want.ExecStack = &v
		return err
	})
	flag.BoolVar(&want.NoDefaultLib, "expect-no-default-lib", false, "DF_1_NODEFLIB is set afterwards")
	flag.BoolVar(&want.Debug, "expect-debug", false, "there is one DT_DEBUG afterwards")
	flag.Func("expect-osabi", "EI_OSABI is `N` afterwards", func(s string) error {
		n, err := strconv.ParseUint(s, 0, 8)
		v := byte(n)
		want.OSABI = &v
		return err
	})
	flag.Func("cleared", "the `SYMBOL` has no version afterwards", func(s string) error {
		want.Cleared = append(want.Cleared, s)
		return nil
	})
	flag.Func("gone", "`TEXT` is not in the file afterwards, unless it was before", func(s string) error {
		want.Gone = append(want.Gone, s)
		return nil
	})
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: judge [flags] BEFORE AFTER")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 2 {
		flag.Usage()
		os.Exit(2)
	}
	before, err := judge.Open(flag.Arg(0))
	if err == nil {
		var after *judge.File
		if after, err = judge.Open(flag.Arg(1)); err == nil {
			bad := 0
			for _, f := range judge.Compare(before, after, want) {
				fmt.Println(f)
				if !f.Remark {
					bad++
				}
			}
			if bad > 0 {
				os.Exit(1)
			}
			return
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(2)
}
