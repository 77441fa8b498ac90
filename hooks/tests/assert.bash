# shellcheck shell=bash disable=SC2154
# What the checks assert with. Each prints what it expects, and what is there
# where it differs; `done_` at the end fails where anything did, so that one
# broken assertion does not hide the others.
assertions=0
wrong=0

complain() {
    printf 'NOT OK: %s\n' "$@" >&2
    wrong=$((wrong + 1))
}

# The list in DT_RUNPATH, of what readelf -dW says; nothing where there is none.
listIn() { # TEXT
    local line list=
    while IFS= read -r line; do
        if [[ $line == *'(RUNPATH)'*'['*']' ]]; then list+=${list:+$'\n'}${line#*[}; list=${list%]}; fi
    done <<<"$1"
    printf '%s' "$list"
}
runPath() { # FILE
    local text
    text=$(readelf -dW "$1") || exit
    listIn "$text"
}

runPathIs() { # FILE LIST
    local text list
    assertions=$((assertions + 1))
    text=$(readelf -dW "$1" 2>&1) || { complain "$1: readelf: $text"; return; }
    list=$(listIn "$text")
    if [[ $list != "$2" ]]; then
        complain "$1: the run path is '$list', expected '$2'"
    elif [[ $text == *'(RPATH)'* ]]; then
        complain "$1: has DT_RPATH"
    fi
}

same() { # WHAT IS EXPECTED
    assertions=$((assertions + 1))
    if [[ $2 != "$3" ]]; then
        complain "$1: is '$2', expected '$3'"
    fi
}

contains() { # WHAT TEXT PART
    assertions=$((assertions + 1))
    if [[ $2 != *"$3"* ]]; then
        complain "$1: does not say '$3':" "$2"
    fi
}

lacks() { # WHAT TEXT PART
    assertions=$((assertions + 1))
    if [[ $2 == *"$3"* ]]; then
        complain "$1: says '$3':" "$2"
    fi
}

holds() { # WHAT COMMAND…
    local what=$1
    assertions=$((assertions + 1))
    shift
    "$@" || complain "$what: '$*' failed"
}

# Files and what they hold, byte for byte.
unchanged() { # FILE ORIGINAL
    assertions=$((assertions + 1))
    cmp "$1" "$2" || complain "$1 differs from $2"
}

# The tools that a build ran, by the calls of counting tools, on one line.
toolsIn() { # CALLS
    sed -E -e 's/^runpath normalize//' -e 's/ --jobs .*//' -e 's/ ?--tool / /g' -e 's/^ //' "$1" | tr '\n' ' '
}

done_() {
    if ((wrong > 0 || assertions == 0)); then
        echo "$wrong of $assertions assertions failed" >&2
        exit 1
    fi
    echo "$assertions assertions hold" | tee "$out"
}
