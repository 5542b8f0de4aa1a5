#!/usr/bin/env python3
"""Builds the small programs that race, has Snag confirm what it finds in each, and prints a table by class.

    python3 bench/small/confirm.py --snag target/release/snag [--only WORD,...] [--missed]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import programs
import run


def findings(snag, path, folder):
    """What was found, and of that what no replay could show: races by memory order. A list of (confirmed, why not)."""
    command = [snag, "run", "-q", "--confirm", "--format", "json", "--", path]
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
    trace = json.loads(done.stdout)["traces"][0]
    found = [f for f in trace["races"] + trace["deadlocks"] if f.get("kind") != "order"]
    return [(f["confirmed"], f.get("why_not", "")) for f in found]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--snag", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--missed", action="store_true", help="say why findings are not confirmed")
    options = parser.parse_args()
    snag = os.path.abspath(options.snag)
    words = options.only.split(",")
    counts = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, number, racy, _ in programs.programs():
            if not any(word in name for word in words):
                continue
            path = os.path.join(folder, f"{name}-{number}".replace(" ", "_"))
            run.build(racy, path, "C++" in name)
            found = findings(snag, path, folder)
            count = counts.setdefault(name, [0, 0, 0])
            for index, more in enumerate((1, len(found), sum(confirmed for confirmed, _ in found))):
                count[index] += more
            for _, why in (f for f in found if options.missed and not f[0]):
                print(f"{name} {number}: {why}", file=sys.stderr)
    print("| class | programs | predicted | confirmed |\n|---|---|---|---|")
    for name, count in counts.items():
        print(f"| {name} | " + " | ".join(map(str, count)) + " |")
    print("| all | " + " | ".join(str(sum(count[i] for count in counts.values())) for i in range(3)) + " |")


if __name__ == "__main__":
    main()
