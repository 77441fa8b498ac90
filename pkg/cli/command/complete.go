package command

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Word is a word that fits, and what it means; "" where that is not known.
type Word struct{ Word, Means string }

// described is the last word of a shell's question for words with what they mean; see [completes].
const described = "--generate-completion"

// completes reports whether a command line is a shell's question which words would fit at its end: for the words alone,
// or for each with a tab and what it means.
func completes(args []string) bool {
	return len(args) > 0 && slices.Contains([]string{"--generate-bash-completion", described}, args[len(args)-1])
}

// complete answers such a question.
func complete(app *Command, args []string, w io.Writer) {
	last := len(args) - 1
	for _, word := range Fitting(app, args[1:last]) {
		line := word.Word
		if args[last] == described && word.Means != "" {
			line += "\t" + word.Means
		}
		fmt.Fprintln(w, line)
	}
}

// Fitting returns the words that fit after those of a command line: commands, the values of a
// flag, or after "-" the flags. Where there is none, the names of files fit, which are the shell's business.
func Fitting(app *Command, words []string) (fit []Word) {
	c := app
	if len(words) > 0 && words[0] == "help" && c.Commands != nil {
		words = words[1:]
	}
	for i := 0; i < len(words); i++ {
		word := words[i]
		if f := find(c.Flags, strings.TrimLeft(word, "-")); f != nil && word[0] == '-' && f.Kind != Bool {
			if i++; i == len(words) {
				return f.fitting()
			}
			continue
		}
		if word == "--" {
			return nil
		}
		for _, sub := range c.Commands {
			if sub.Name == word {
				c = sub
				break
			}
		}
	}
	if len(words) > 0 && words[len(words)-1] == "-" {
		for _, f := range c.shown() {
			fit = append(fit, Word{"--" + f.Name, f.told()})
		}
		return fit
	}
	for _, sub := range c.Commands {
		fit = append(fit, Word{sub.Name, sub.Usage})
	}
	return fit
}

// fitting returns the values of a flag, as far as they are known.
func (f *Flag) fitting() (words []Word) {
	for _, value := range f.Values {
		words = append(words, Word{Word: value})
	}
	if f.Words != nil {
		words = append(words, f.Words()...)
	}
	return words
}
