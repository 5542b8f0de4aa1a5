#!/bin/sh
# Compiles a C program for ThreadSanitizer, records one run of it, predicts a race that this run did not have, and makes it
# happen. Needs cargo and gcc, on Linux on x86-64.
set -eu
cd "$(dirname "$0")/.."
if [ -z "${SNAG:-}" ]; then
    cargo build --quiet --release -p snag
    SNAG="${CARGO_TARGET_DIR:-target}/release/snag"
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# A status of 1 means that a race was found.
gcc -g -fsanitize=thread examples/state_machine.c -o "$folder/state_machine"
"$SNAG" run --keep "$folder/run.snag" -- "$folder/state_machine" || [ $? = 1 ]
"$SNAG" replay "$folder/run.snag" --race R1 || [ $? = 1 ]
