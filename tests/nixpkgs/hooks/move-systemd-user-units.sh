# shellcheck shell=bash disable=SC2154
# The units in lib/systemd/user are moved to share/systemd/user, and the first becomes an
# absolute link to the second.
fixupOutputHooks+=(_moveSystemdUserUnits)

_moveSystemdUserUnits() {
    local from=$prefix/lib/systemd/user to=$prefix/share/systemd/user
    if [[ ${dontMoveSystemdUserUnits-} == 1 || ! -d $from || -L $from ]]; then return 0; fi
    echo "moving $from/* to $to"
    mkdir -p "$to"
    find "$from" -mindepth 1 -maxdepth 1 -exec mv -t "$to" {} +
    rmdir "$from"
    ln -s "$to" "$from"
}
