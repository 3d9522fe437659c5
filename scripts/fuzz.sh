#!/usr/bin/env bash
# scripts/fuzz.sh SECONDS
#
# Builds the fuzzers of tests/fuzz and runs them side by side for SECONDS. A finding is an error; the
# input that makes it is left in build/fuzz, and `build/fuzz/fuzz_NAME FILE` runs it again.
set -euo pipefail
cd "$(dirname "$0")/.."

DURATION=${1:?usage: scripts/fuzz.sh SECONDS}

cmake -S tests/fuzz -B build/fuzz -G Ninja --log-level=WARNING -DCMAKE_CXX_COMPILER=clang++-14
cmake --build build/fuzz
cd build/fuzz
declare -A running
for fuzzer in fuzz_*; do
  [[ -x $fuzzer ]] || continue
  # The corpus grows in the build folder: a later run starts from what this one found.
  "./$fuzzer" -max_total_time="$DURATION" -timeout=10 -rss_limit_mb=2048 \
    -print_final_stats=1 "corpus_${fuzzer#fuzz_}" &> "$fuzzer.log" &
  running[$fuzzer]=$!
done

failed=0
for fuzzer in "${!running[@]}"; do
  if wait "${running[$fuzzer]}"; then
    echo "$fuzzer: $(grep number_of_executed_units "$fuzzer.log")"
  else
    failed=1
    echo "$fuzzer found something:"
    tail -40 "$fuzzer.log"
  fi
done
exit "$failed"
