#!/usr/bin/env python3
"""Builds the small programs, runs ThreadSanitizer once and Snag once on each, and prints a table by class.

    python3 bench/small/run.py --snag target/release/snag [--way NAME=OPTIONS]... [--seed-runs N] [--only WORD,...]

A way is a name and options of `snag run`; without any there is one, `snag`, without options. `--seed-runs N` adds N ways
with the seeds 1 to N. A program that takes more than 20 seconds counts as silent, and is listed.
"""

import argparse
import concurrent.futures
import os
import subprocess
import sys
import tempfile
import time

import programs

LONGEST = 20


def build(source, path, is_cpp):
    file = path + (".cpp" if is_cpp else ".c")
    with open(file, "w") as out:
        out.write(source)
    compiler = "g++" if is_cpp else "gcc"
    subprocess.run([compiler, "-g", "-w", "-fsanitize=thread", file, "-o", path, "-lpthread"], check=True)


def run(command, folder):
    """Exit status, None if it took too long; and the seconds."""
    started = time.time()
    # A thread that is left when the program ends is no race.
    environment = os.environ | {"TSAN_OPTIONS": "report_thread_leaks=0"}
    with subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            status = process.wait(LONGEST)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            status = None
    return status, time.time() - started


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--snag", required=True)
    parser.add_argument("--way", action="append", default=[], metavar="NAME=OPTIONS")
    parser.add_argument("--seed-runs", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--missed", action="store_true", help="list what each way does not find")
    options = parser.parse_args()
    snag = os.path.abspath(options.snag)
    ways = [tuple(way.split("=", 1)) for way in options.way] or [("snag", "")]
    ways += [(f"seed {seed}", f"--seed {seed}") for seed in range(1, options.seed_runs + 1)]
    words = options.only.split(",")
    everything = [p for p in programs.programs() if any(word in p[0] for word in words)]
    names = ["ThreadSanitizer"] + [name for name, _ in ways]
    found, alarms, seconds, slow, missed = {}, {}, dict.fromkeys(names, 0.0), [], []

    def one(job):
        (name, number, racy, free), folder = job
        results = []
        for source, races in ((racy, True), (free, False)):
            path = os.path.join(folder, f"{name}-{number}-{'racy' if races else 'free'}".replace(" ", "_"))
            build(source, path, "C++" in name)
            status, took = run([path], folder)
            results.append((name, number, races, "ThreadSanitizer", status == 66, status is None, took))
            for way, flags in ways:
                status, took = run([snag, "run", "-q", *flags.split(), "--", path], folder)
                results.append((name, number, races, way, status == 1, status is None, took))
        return results

    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for results in pool.map(one, [(program, folder) for program in everything]):
            for name, number, races, way, hit, late, took in results:
                kept = found if races else alarms
                kept.setdefault(name, dict.fromkeys(names, 0))
                kept[name][way] += hit
                seconds[way] += took
                if late:
                    slow.append(f"{way}: {name} {number} ({'racy' if races else 'race-free'})")
                if hit != races:
                    missed.append(f"{way}: {name} {number} ({'missed' if races else 'false alarm'})")

    counts = {}
    for name, *_ in everything:
        counts[name] = counts.get(name, 0) + 1
    print("| class | programs | " + " | ".join(names) + " |")
    print("|---|---" * 1 + "|---" * len(names) + "|")
    for name, count in counts.items():
        print(f"| {name} | {count} | " + " | ".join(str(found[name][way]) for way in names) + " |")
    total = lambda kept, way: sum(kept[name][way] for name in counts)
    print(f"| all that race | {len(everything)} | " + " | ".join(str(total(found, way)) for way in names) + " |")
    print(f"| false alarms | {len(everything)} | " + " | ".join(str(total(alarms, way)) for way in names) + " |")
    print(f"| seconds | | " + " | ".join(f"{seconds[way]:.0f}" for way in names) + " |")
    for line in slow:
        print("too slow:", line, file=sys.stderr)
    for line in missed if options.missed else []:
        print(line, file=sys.stderr)


if __name__ == "__main__":
    main()
