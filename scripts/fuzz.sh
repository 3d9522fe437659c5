#!/usr/bin/env bash
# scripts/fuzz.sh SECONDS
#
# Builds the fuzzers of tests/fuzz and runs each for SECONDS. A finding ends it with an error; the
# input that makes it is left in build/fuzz, and `build/fuzz/fuzz_NAME FILE` runs it again.
set -euo pipefail
cd "$(dirname "$0")/.."

SECONDS_EACH=${1:?usage: scripts/fuzz.sh SECONDS}

cmake -S tests/fuzz -B build/fuzz -G Ninja --log-level=WARNING -DCMAKE_CXX_COMPILER=clang++-14
cmake --build build/fuzz
cd build/fuzz
for fuzzer in fuzz_*; do
  [[ -x $fuzzer ]] || continue
  # The corpus grows in the build folder: a later run starts from what this one found.
  "./$fuzzer" -max_total_time="$SECONDS_EACH" -timeout=10 -rss_limit_mb=2048 \
    -print_final_stats=1 "corpus_${fuzzer#fuzz_}"
done
