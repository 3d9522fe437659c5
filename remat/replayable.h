#pragma once

#include <string>

namespace remat {

/// Declares that the operator "ns::name" of another namespace than aten, every overload of it, only
/// computes: it is a function of its arguments, writes what its schema says, and draws no random
/// numbers unless it takes a generator or has the tag nondeterministic_seeded. What it makes is
/// then recomputed; without this it is kept. Verify mode (RegionOptions::verify) shows whether it
/// is so. Throws c10::Error where the name has no namespace or is that of an operator of torch.
///
/// A torch::autograd::Function needs no declaration: the operators that its forward calls are
/// recorded like any others, and forward is never called again.
void declare_replayable(const std::string& name);

}  // namespace remat
