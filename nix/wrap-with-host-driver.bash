# shellcheck shell=bash disable=SC2154  # the variables are the derivation's
#
# Makes $out of $packages, outputs of one package: links to what they hold, with wrappers
# of the programs in bin, and edited copies of what starts these. A package may have links
# to directories, of its own (stdenv makes lib/systemd/user one) or of other packages'
# (buildEnv makes bin and share such), and nothing is written through them.

# Makes DIRECTORY, in $out, and those above it, directories of $out, where they are links
# out of it.
own() { # DIRECTORY
    local target
    if [[ $1 == "$out" ]]; then return 0; fi
    own "${1%/*}"
    if [[ ! -L $1 ]]; then
        mkdir -p "$1"
        return 0
    fi
    target=$(readlink -f "$1")
    if [[ $target != "$out" && $target != "$out"/* ]]; then
        rm "$1"
        cp -rsT --no-preserve=mode "$target" "$1"
    fi
}

# Text as a pattern of sed -E that matches it.
pattern() { # TEXT
    printf '%s' "$1" | sed 's/[][\\.*^$|(){}+?]/\\&/g'
}

mkdir -p "$out"
edits=()
for each in $packages; do
    edits+=(-e "s|$(pattern "$each/bin/")|$out/bin/|g")
    if ((${#edits[@]} == 2)); then
        cp -rsT --no-preserve=mode "$each" "$out"
    else
        # What the first output has too, such as nix-support, stays the first one's.
        while IFS= read -r -d "" file; do
            link=$out${file#"$each"}
            own "${link%/*}"
            if [[ ! -e $link && ! -L $link ]]; then ln -s "$file" "$link"; fi
        done < <(find "$each" ! -type d -print0)
    fi
    # Links within the package, to directories and from one unit to another (which systemd
    # takes for a second name of that unit), become links within $out.
    while IFS= read -r -d "" link; do
        original=$each${link#"$out"}
        if [[ ! -L $original ]]; then continue; fi
        target=$(readlink -f "$original") || continue
        if [[ $target/ == "$each"/* ]]; then ln -sfn "$out${target#"$each"}" "$link"; fi
    done < <(find "$out" -type l \( -xtype d -o -name '*.desktop' -o -name '*.service' \) -print0)
done

for directory in bin share/{applications,systemd/{user,system},dbus-1/{services,system-services}} \
    etc/{xdg/autostart,systemd/{user,system}} lib/systemd/{user,system}; do
    if [[ -d $out/$directory ]]; then own "$out/$directory"; fi
done

for program in "$out"/bin/*; do
    original=$(readlink "$program") || continue
    if [[ -d $original || ! -x $original ]]; then continue; fi
    # What starts it may know it by the place that it really is in.
    real=$(readlink -f "$original")
    if [[ ${real##*/} == "${program##*/}" ]]; then
        edits+=(-e "s|$(pattern "$real")([^[:alnum:]_.+-]\|\$)|$program\1|g")
    fi
    rm "$program"
    # shellcheck disable=SC2016  # "$@" is the wrapper's
    printf '#!%s\nexec %q run -- %q "$@"\n' \
        "$shell" "$hostDriver/bin/hostDriver" "$original" >"$program"
    chmod +x "$program"
done

while IFS= read -r -d "" file; do
    if [[ ! -f $file || $(readlink "$file") == "$out"/* ]]; then continue; fi
    sed -E "${edits[@]}" "$file" >edited
    if ! cmp -s edited "$file"; then
        rm "$file"
        cp edited "$file"
    fi
done < <(find "$out"/{share,etc/xdg,lib/systemd,etc/systemd} \
    \( -name '*.desktop' -o -name '*.service' \) -print0 2>/dev/null)
