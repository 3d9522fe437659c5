# The commands of this repository. Each sets up what it needs, and is quick when nothing changed.

SHELL := /bin/bash
PYTHON := .venv/bin/python
STEP := @scripts/step.sh
SETUP := @scripts/setup.sh

.NOTPARALLEL:
.PHONY: help setup build test test-all test-cpp test-asan test-asan-python test-tsan test-python \
        test-deepspeed test-fuzz test-examples test-wheel check-includes lint tidy format bench demo clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup:  ## Install system packages (where it may) and .venv
	$(SETUP) build test lint demo

build:  ## Build the library, the Python module, C++ tests and benchmarks (build/release)
	$(SETUP) build
	$(STEP) "configure release" cmake --preset release --log-level=WARNING
	$(STEP) "build release" cmake --build --preset release

test: check-includes test-cpp test-python test-examples test-wheel test-asan  ## Run all tests

test-all: test test-tsan test-asan-python test-deepspeed test-fuzz  ## Run all tests, and those of others (an hour)
	$(SETUP) build test demo peers
	$(STEP) "suites of others" $(PYTHON) tests/peers/table.py

check-includes:  ## Check which room includes which
	$(STEP) "direction of includes" scripts/check_includes.py

test-cpp: build  ## Run the C++ tests
	$(STEP) "C++ tests" ctest --preset release

test-asan:  ## Run the C++ tests under AddressSanitizer and UndefinedBehaviorSanitizer
	$(SETUP) build
	$(STEP) "configure asan" cmake --preset asan --log-level=WARNING
	$(STEP) "build asan" cmake --build --preset asan
	$(STEP) "C++ tests under ASan and UBSan" ctest --preset asan

# Threads are what these two are about; everything else is single-threaded.
test-tsan:  ## Run the C++ tests with threads under ThreadSanitizer
	$(SETUP) build
	$(STEP) "configure tsan" cmake --preset tsan --log-level=WARNING
	$(STEP) "build tsan" cmake --build --preset tsan --target test_replay test_api
	$(STEP) "C++ tests under TSan" ctest --preset tsan

# Leaks are not looked for: the interpreter has its own. Without -s pytest would take a report with it
# to the grave.
SANITIZED := LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libubsan.so)" \
    ASAN_OPTIONS=detect_leaks=0 PYTHONPATH=build/asan/python OMP_NUM_THREADS=1

test-asan-python: build  ## Run the Python tests of the recorder and of replays under ASan and UBSan
	$(SETUP) build test
	$(STEP) "configure asan" cmake --preset asan --log-level=WARNING -DREMAT_BUILD_PYTHON=ON
	$(STEP) "build asan" cmake --build build/asan --target remat_python
	$(STEP) "Python tests under ASan and UBSan" env $(SANITIZED) $(PYTHON) -m pytest -s \
	    tests/python/test_checkpoint.py tests/python/test_region.py tests/python/test_verify.py \
	    tests/python/test_replayable.py tests/python/test_parameters.py tests/python/test_policy.py \
	    tests/review

test-deepspeed: build  ## Run the tests with DeepSpeed ZeRO-3, which it installs
	$(SETUP) build test
	$(STEP) "DeepSpeed" env DS_ACCELERATOR=cpu DS_BUILD_OPS=0 $(PYTHON) -m pip install \
	    --quiet --disable-pip-version-check --no-build-isolation -r requirements/deepspeed.txt
	$(STEP) "tests with DeepSpeed" env DS_ACCELERATOR=cpu \
	    $(PYTHON) -m pytest tests/distributed/test_deepspeed.py

test-python: build  ## Run the Python tests
	$(SETUP) build test demo
	$(STEP) "Python tests" $(PYTHON) -m pytest

test-fuzz:  ## Fuzz the readers of foreign files for five minutes of CPU time
	$(SETUP) build fuzz
	$(STEP) "fuzzers" scripts/fuzz.sh 150

test-examples: build  ## Build the C++ examples against the installed package; run all examples
	$(SETUP) build test
	$(STEP) "examples" env OMP_NUM_THREADS=1 scripts/run_examples.sh

test-wheel: build  ## Build the wheel and import it away from the working tree
	$(STEP) "wheel" scripts/check_wheel.sh

lint:  ## Check format, includes, and style of Python
	$(SETUP) build lint
	$(STEP) "direction of includes" scripts/check_includes.py
	$(STEP) "lint" scripts/lint.sh

tidy:  ## Run clang-tidy on the C++ files (half an hour on 2 cores)
	$(SETUP) build lint
	$(STEP) "clang-tidy" scripts/lint.sh --tidy

format:  ## Format C++ and Python in place
	$(SETUP) build lint
	$(STEP) "format" scripts/format.sh

bench: build  ## Measure the fixed costs against plain and torch.utils.checkpoint
	$(STEP) "benchmarks" $(PYTHON) benchmarks/run.py

demo: build  ## Fine-tune a language model with and without remat
	$(SETUP) build demo
	$(STEP) "demo" $(PYTHON) demo/demo.py

clean:  ## Remove what was built; .venv stays
	rm -rf build out python/remat/*.so
