#!/usr/bin/env bash
# Formats every C++ and Python file in place.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/sources.sh

mapfile -t sources < <(cpp_files)
clang-format -i "${sources[@]}"
.venv/bin/ruff check --fix --exit-zero --quiet .
.venv/bin/ruff format --quiet .
