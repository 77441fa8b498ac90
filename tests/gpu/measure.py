"""Run a command and say what it cost, as the last line of stderr: "12.345 s, 6789 KiB peak, status 0".

For machines without GNU time. Peak is the largest resident set of the command and its children.
"""
import resource
import subprocess
import sys
import time

start = time.monotonic()
status = subprocess.call(sys.argv[1:])
seconds = time.monotonic() - start
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(f"{seconds:.3f} s, {peak} KiB peak, status {status}", file=sys.stderr)
sys.exit(status)
