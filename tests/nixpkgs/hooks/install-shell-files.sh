# shellcheck shell=bash disable=SC2154
# installManPage FILE… and installShellCompletion --cmd NAME --bash F --fish F --zsh F.
installManPage() {
    local file
    for file in "$@"; do
        mkdir -p "${!outputMan:-$out}/share/man/man${file##*.}"
        cp "$file" "${!outputMan:-$out}/share/man/man${file##*.}/"
    done
}

installShellCompletion() {
    local name=
    while (($#)); do
        case $1 in
        --cmd) name=$2 ;;
        --bash) install -Dm444 "$2" "$out/share/bash-completion/completions/$name.bash" ;;
        --fish) install -Dm444 "$2" "$out/share/fish/vendor_completions.d/$name.fish" ;;
        --zsh) install -Dm444 "$2" "$out/share/zsh/site-functions/_$name" ;;
        esac
        shift 2
    done
}
