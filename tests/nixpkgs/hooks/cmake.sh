# shellcheck shell=bash disable=SC2154
# What CMake's setup hook does: the configure phase, in a directory of its own.
cmakeConfigurePhase() {
    runHook preConfigure
    mkdir -p build
    cd build || return
    # shellcheck disable=SC2086 # a string is several flags
    @cmake@ .. -DCMAKE_INSTALL_PREFIX="$out" ${cmakeFlags-}
    runHook postConfigure
}
if [[ -z ${configurePhase-} ]]; then configurePhase=cmakeConfigurePhase; fi
