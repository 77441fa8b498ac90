package session

import (
	"io"
	"strings"

	"github.com/sirupsen/logrus"

	"cuda-runpath/pkg/cli/command"
)

func NewLog(w io.Writer, verbose, quiet bool) *logrus.Logger {
	log := logrus.New()
	log.SetOutput(w)
	log.SetFormatter(lineFormat{command.InkFor(w)})
	switch {
	case verbose:
		log.SetLevel(logrus.DebugLevel)
	case quiet:
		log.SetLevel(logrus.WarnLevel)
	default:
		log.SetLevel(logrus.InfoLevel)
	}
	return log
}

// lineFormat writes "PATH: message", as compilers do, with "warning: " before a
// warning's message. Each entry is one line, whatever the file's name and contents are.
type lineFormat struct{ ink command.Ink }

func (l lineFormat) Format(e *logrus.Entry) ([]byte, error) {
	var b []byte
	if path, ok := e.Data["path"].(string); ok {
		b = append(b, command.Printable(path)...)
		b = append(b, ": "...)
	}
	hue := command.Plain
	switch e.Level {
	case logrus.WarnLevel:
		b = append(b, l.ink.Paint(command.Yellow, "warning")+": "...)
	case logrus.ErrorLevel:
		hue = command.Red
	}
	b = append(b, l.ink.Paint(hue, command.Printable(strings.ReplaceAll(e.Message, "\n", "; ")))...)
	return append(b, '\n'), nil
}
