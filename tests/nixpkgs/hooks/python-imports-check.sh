# shellcheck shell=bash disable=SC2048,SC2154
# Imports the modules named in pythonImportsCheck, in a phase of its own after
# installCheckPhase, as nixpkgs' Python packages do.
pythonImportsCheckPhase() {
    local module
    for module in ${pythonImportsCheck[*]-}; do
        echo "importing $module"
        (cd "$out" && PYTHONPATH=$out/lib/python3/site-packages python3 -c "import $module")
    done
}
preDistPhases+=" pythonImportsCheckPhase"
