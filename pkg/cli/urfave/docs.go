package urfave

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"cuda-runpath/pkg/cli/command"
)

// document answers --man and --completion.
func document(program *command.Command, c *cli.Context) (done bool, err error) {
	var text string
	shell := c.String("completion")
	script, known := map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}[shell]
	switch {
	case c.Bool("man"):
		text, err = command.Man(program, slices.DeleteFunc(c.Args().Slice(), func(word string) bool { return word == "--" }))
	case known:
		text = strings.ReplaceAll(script, "NAME", c.App.Name)
	case shell == "":
		return false, nil
	default:
		err = command.Misusef("--completion %s: bash, zsh or fish", shell)
	}
	if err != nil {
		return false, err
	}
	_, err = fmt.Fprint(c.App.Writer, text)
	return true, err
}

// The scripts ask the program itself for the words that fit ([command.Fitting]), and leave
// file names, where there is no such word, to the shell. Of a flag only the dash is passed on.
const bashCompletion = `# bash completion for NAME
_NAME_complete() {
  local current=${COMP_WORDS[COMP_CWORD]} asked=("${COMP_WORDS[@]:1:COMP_CWORD-1}")
  [[ $current == -* ]] && asked+=(-)
  mapfile -t COMPREPLY < <(compgen -W "$(NAME "${asked[@]}" --generate-bash-completion 2>/dev/null)" -- "$current")
}
complete -o bashdefault -o default -F _NAME_complete NAME
`

const zshCompletion = `#compdef NAME
_NAME() {
  local -a words_that_fit asked options
  asked=("${(@)words[2,CURRENT-1]}")
  [[ ${words[CURRENT]} == -* ]] && asked+=(-) options=(-o)
  words_that_fit=("${(@f)$(NAME "${asked[@]}" --generate-completion 2>/dev/null)}")
  words_that_fit=("${(@)words_that_fit:#}")
  if (( ! ${#words_that_fit} )); then
    _files
    return
  fi
  words_that_fit=("${(@)words_that_fit//:/\\:}")
  words_that_fit=("${(@)words_that_fit/$'\t'/:}") # what _describe shows beside a word
  _describe $options NAME words_that_fit
}
# Autoloaded from fpath this file is the function itself, and is called for the first completion; else it is sourced.
if [[ ${funcstack[1]} == _NAME ]]; then _NAME "$@"; else compdef _NAME NAME; fi
`

const fishCompletion = `# fish completion for NAME
function __NAME_fitting
    set -l asked (commandline -opc)[2..-1]
    string match -q -- '-*' (commandline -ct); and set -a asked -
    NAME $asked --generate-completion 2>/dev/null
end
complete -c NAME -f -a '(__NAME_fitting)'
complete -c NAME -F -n 'not string length -q -- (__NAME_fitting)'
`
