#!/usr/bin/env bash
# scripts/setup.sh GROUP...
#
# Installs what a group (build, test, lint, fuzz, demo) needs: Debian packages where it may, and the pinned
# Python packages of requirements/GROUP.txt into .venv. What is already there is left alone, so a
# second run takes no time. PYTHON names another interpreter than python3 for .venv.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/step.sh

PYTHON=${PYTHON:-python3}

# Group, Debian package, and the command that succeeds where it is not needed any more.
system_packages() {
  cat <<'END'
build|g++|command -v g++
build|cmake|command -v cmake
build|ninja-build|command -v ninja
build|ccache|command -v ccache
build|libgtest-dev|test -e /usr/include/gtest/gtest.h
build|libbenchmark-dev|test -e /usr/include/benchmark/benchmark.h
build|nlohmann-json3-dev|test -e /usr/include/nlohmann/json.hpp
build|libfmt-dev|test -e /usr/include/fmt/format.h
build|pkg-config|command -v pkg-config
build|libpcre2-dev|test -e /usr/include/pcre2.h
build|libutf8proc-dev|test -e /usr/include/utf8proc.h
build|libcli11-dev|test -e /usr/include/CLI/CLI.hpp
build|libyaml-cpp-dev|test -e /usr/include/yaml-cpp/yaml.h
build|libxxhash-dev|test -e /usr/include/xxhash.h
build|zlib1g-dev|test -e /usr/include/zlib.h
build|python3|command -v "$PYTHON"
build|python3-venv|"$PYTHON" -c "import ensurepip"
build|python3-dev|"$PYTHON" -c "import sysconfig; open(sysconfig.get_path('include') + '/Python.h')"
lint|clang-format|command -v clang-format
lint|clang-tidy|command -v clang-tidy
fuzz|clang-14|command -v clang++-14
fuzz|libclang-rt-14-dev|ls /usr/lib/llvm-14/lib/clang/*/lib/linux/libclang_rt.fuzzer-x86_64.a
demo|jargon-text|dpkg-query --status jargon-text
END
}

missing_packages() {
  local group package probe
  system_packages | while IFS='|' read -r group package probe; do
    if [[ " $* " == *" $group "* ]] && ! eval "$probe" &> /dev/null < /dev/null; then
      echo "$package"
    fi
  done
}

as_root() {
  if [[ $EUID == 0 ]]; then "$@"; else sudo -n "$@"; fi
}

install_system_packages() {
  if ! command -v apt-get > /dev/null || ! as_root true 2> /dev/null; then
    echo "These system packages are missing, and this user may not install them: $*" >&2
    echo "Run:  sudo apt-get install --no-install-recommends $*" >&2
    exit 1
  fi
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -qq --yes --no-install-recommends "$@" > /dev/null
}

create_venv() {
  if ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "remat needs Python 3.11 or newer; $PYTHON is $("$PYTHON" --version)." >&2
    echo "Name another:  PYTHON=python3.11 make setup" >&2
    exit 1
  fi
  rm -rf .venv
  "$PYTHON" -m venv .venv
}

# The working tree is the installed package: the build puts remat/_C.so beside its Python files.
put_package_on_path() {
  local site
  site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  echo "$PWD/python" > "$site/remat-working-tree.pth"
}

install_python_packages() {
  local file=requirements/$1.txt
  if ! .venv/bin/python -m pip install --quiet --disable-pip-version-check -r "$file"; then
    echo "The Python packages of $file are missing and could not be installed (see above)." >&2
    echo "Behind a mirror, tell pip of it: PIP_INDEX_URL or PIP_FIND_LINKS." >&2
    exit 1
  fi
}

# Of everything that decides what is installed.
fingerprint() {
  cat scripts/setup.sh requirements/*.txt .venv/pyvenv.cfg <(pwd) | sha256sum
}

main() {
  local packages group
  mapfile -t packages < <(missing_packages "$@")
  if [[ ${#packages[@]} != 0 ]]; then
    step "system packages: ${packages[*]}" install_system_packages "${packages[@]}"
  fi
  if ! .venv/bin/python -c 'import pip' &> /dev/null; then
    step ".venv" create_venv
  fi
  put_package_on_path
  for group in "$@"; do
    [[ -e requirements/$group.txt ]] || continue
    if [[ $(cat ".venv/stamp-$group" 2> /dev/null) != "$(fingerprint)" ]]; then
      step "Python packages: $group" install_python_packages "$group"
      fingerprint > ".venv/stamp-$group"
    fi
  done
}

if [[ $# == 0 ]]; then
  set -- build test lint demo
fi
main "$@"
