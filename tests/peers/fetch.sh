#!/usr/bin/env bash
# tests/peers/fetch.sh
#
# Brings the tests that PyTorch and transformers test themselves with to build/peers: PyTorch's v2.6.0
# from Debian's source package, the newest there is, and those of the installed transformers from its
# source distribution. Nothing of them is committed. What is there already is left alone.
set -euo pipefail
cd "$(dirname "$0")/../.."
PEERS=$PWD/build/peers
PYTHON=$PWD/.venv/bin/python
TORCH_SOURCE=pytorch=2.6.0+dfsg-7

# A list of sources of our own, so that the machine's is not changed.
debian_source() {
  local mirror apt
  mirror=$(grep -rhoE 'https?://[^ ]+/debian/?( |$)' /etc/apt/sources.list /etc/apt/sources.list.d \
    2> /dev/null | head -n 1 || true)
  mkdir -p "$1"/apt/{lists/partial,cache/archives/partial}
  echo "deb-src ${mirror:-http://deb.debian.org/debian} stable main" > "$1/apt/sources.list"
  apt=(apt-get -qq -o "Dir::Etc::sourcelist=$1/apt/sources.list" -o Dir::Etc::sourceparts=-
    -o "Dir::State::lists=$1/apt/lists" -o "Dir::Cache=$1/apt/cache")
  "${apt[@]}" update
  (cd "$1" && "${apt[@]}" source --download-only "$TORCH_SOURCE")
}

# What changed in torch since 2.6: names that are gone, and three expected values (an operator fewer is
# dispatched, and a selective checkpoint's policy is not asked again when it recomputes).
adapt_torch() {
  mv "$1/conftest.py" "$1/conftest.py.off"
  sed -i -e 's/^from torch.autograd._functions.utils import check_onnx_broadcast/check_onnx_broadcast = None/' \
    -e 's/^from torch.onnx.symbolic_opset9 import _prepare_onnx_paddings/_prepare_onnx_paddings = None/' \
    "$1/test_utils.py"
  sed -i 's/import create_nested_block_mask, flex_attention/import flex_attention/' \
    "$1/test_nestedtensor.py"
  sed -i -e 's/\["exp.default", "detach.default", "detach.default"\]/["exp.default", "detach.default"]/' \
    -e 's/assertEqual(counters, \[1, 2, 3, 1, 2\])/assertEqual(counters, [1, 2, 3])/' \
    -e '/def test_function_with_more_than_one_output/,/^    @/s/assertEqual(counter\[0\], 2)/assertEqual(counter[0], 1)/' \
    "$1/test_autograd.py"
}

fetch_torch() {
  local scratch
  scratch=$(mktemp -d)
  debian_source "$scratch"
  mkdir -p "$PEERS/torch.part"
  tar -xf "$scratch"/pytorch_*.orig.tar.xz -C "$PEERS/torch.part" --strip-components=1 \
    --wildcards '*/test/*.py'
  adapt_torch "$PEERS/torch.part/test"
  mv "$PEERS/torch.part" "$PEERS/torch"
  rm -rf "$scratch"
}

fetch_transformers() {
  local scratch version
  scratch=$(mktemp -d)
  version=$("$PYTHON" -c 'import transformers; print(transformers.__version__)')
  "$PYTHON" -m pip download --quiet --disable-pip-version-check --no-deps --no-build-isolation \
    --no-binary transformers --dest "$scratch" "transformers==$version"
  mkdir -p "$PEERS/transformers.part"
  tar -xf "$scratch"/transformers-*.tar.gz -C "$PEERS/transformers.part" --strip-components=1 \
    --wildcards '*/tests/*.py'
  mv "$PEERS/transformers.part" "$PEERS/transformers"
  rm -rf "$scratch"
}

mkdir -p "$PEERS"
[[ -d $PEERS/torch ]] || fetch_torch
[[ -d $PEERS/transformers ]] || fetch_transformers
