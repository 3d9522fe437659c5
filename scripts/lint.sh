#!/usr/bin/env bash
# Checks format and style: clang-format and ruff on everything; and with --tidy clang-tidy, which takes 10 to 35 s a
# file, on the C++ files given, or on all of them.
#
#   scripts/lint.sh [--tidy [FILE.cpp...]]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/step.sh
source scripts/sources.sh

tidy() {
  # Without precompiled headers: clang-tidy is not the compiler that wrote them.
  cmake --preset lint --log-level=WARNING
  printf '%s\0' "$@" | xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet -p build/lint \
    2> >(grep -v 'warnings generated' >&2)
}

mapfile -t sources < <(cpp_files)
if [[ ${1:-} == --tidy ]]; then
  shift
  mapfile -t units < <(printf '%s\n' "${@:-${sources[@]}}" | grep '\.cpp$')
  step "clang-tidy, ${#units[@]} files" tidy "${units[@]}"
  exit
fi
step "clang-format" clang-format --dry-run -Werror "${sources[@]}"
step "ruff" .venv/bin/ruff check .
step "ruff format" .venv/bin/ruff format --check .
