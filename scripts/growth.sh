#!/bin/sh
# Fails when a recorded turn costs more than 3 % more than it did; see scripts/growth.py.
exec python3 "$(dirname -- "$0")/growth.py" "$@"
