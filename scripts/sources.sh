# The C++ files that are ours, committed or not. Sourced by lint.sh and format.sh.

cpp_files() {
  git ls-files --cached --others --exclude-standard '*.h' '*.cpp'
}
