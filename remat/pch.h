// The libtorch headers that cost most to compile, precompiled once for every unit that uses them.
// A build aid: units still include what they use, and are linted without this file.

#pragma once

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable.h>
