#!/usr/bin/env bash
# scripts/step.sh LABEL COMMAND...    runs a command, between its label and the time it took.
set -euo pipefail

step() {
  local label=$1 begin=$SECONDS
  shift
  echo "==> $label"
  "$@"
  echo "==> $label: $((SECONDS - begin)) s"
}

if [[ "${BASH_SOURCE[0]}" == "$0" ]]; then
  step "$@"
fi
