#!/usr/bin/env bash
# Installs the built library into build/install, builds the C++ examples against it as another project
# would, and runs all examples. REQUIRES: `make build`.
set -euo pipefail
cd "$(dirname "$0")/.."

if command -v ccache > /dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache
fi

rm -rf build/install
cmake --install build/release --prefix build/install > build/install.log
cmake -S examples/cpp -B build/examples -G Ninja --log-level=WARNING \
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$PWD/build/install"
cmake --build build/examples
ctest --test-dir build/examples --output-on-failure

for example in examples/python/*.py; do
  echo "--> $example"
  .venv/bin/python "$example"
done
