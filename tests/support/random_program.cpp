#include "tests/support/random_program.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

namespace remat::testing {

at::Tensor RandomProgram::operator()(const Tensors& inputs) {
  random_.seed(seed_);
  trace_.str("");
  pool_ = inputs;
  size_ = inputs[0].size(0);
  push("mul", inputs[0] * 2);
  run_steps(static_cast<int>(4 + pick(24)), 0);
  at::Tensor result = pool_.back().sin();
  for (const at::Tensor& tensor : pool_) result = result + tensor.tanh();
  survivors_.clear();
  for (const at::Tensor& tensor : pool_) {
    if (pick(4) == 0) survivors_.push_back(tensor.detach());
  }
  pool_.clear();
  return result;
}

void RandomProgram::run_steps(int count, int depth) {
  for (int i = 0; i < count; ++i) step(depth);
}

void RandomProgram::step(int depth) {
  switch (pick(12)) {
    case 0:
      if (depth < 3) run_region(depth);
      break;
    case 1:
      if (pool_.size() > 4) drop();
      break;
    case 2:
    case 3:
    case 4:
      write();
      break;
    case 5:
      write_part();
      break;
    default:
      make();
  }
}

void RandomProgram::drop() {
  const size_t place = 3 + pick(pool_.size() - 3);  // the inputs stay
  trace_ << "drop #" << place << '\n';
  pool_.erase(pool_.begin() + static_cast<ptrdiff_t>(place));
}

void RandomProgram::run_region(int depth) {
  trace_ << "region {\n";
  {
    const Region region;
    run_steps(static_cast<int>(1 + pick(6)), depth + 1);
  }
  trace_ << "}\n";
}

void RandomProgram::make() {
  const auto a = any();
  const auto b = any();
  const int64_t half = size_ / 2;
  switch (pick(16)) {
    case 0:
      return push("exp", a.tanh().exp());
    case 1:
      return push("sin", a.sin());
    case 2:
      return push("mul", a * b);
    case 3:
      return push("add", a.add(b, 0.5));
    case 4:
      return push("mm", (a / size_).mm(b).tanh());
    case 5:
      return push("view t", a.t());
    case 6:
      return push("view flip of chunks", at::cat({a.narrow(0, half, half), b.narrow(0, 0, half)}));
    case 7:
      return push("dropout", at::dropout(a, 0.5, true));
    case 8:
      return push("rand_like", a * at::rand_like(a));
    case 9:
      return push("softmax", a.softmax(1));
    case 10:
      return push("layer_norm", at::layer_norm(a, {size_}));
    case 11:
      return push("detach", a.detach());
    case 12:
      return push("clone", a.clone());
    case 13:
      return push("zeros", at::zeros({size_, size_}));
    case 14: {
      auto out = at::empty({size_, size_});
      const c10::AutoGradMode no_grad(false);
      at::sin_out(out, a);
      return push("sin out=", out);
    }
    default: {
      auto parts = at::empty({size_, size_});
      parts.narrow(0, 0, half).copy_(a.narrow(0, 0, half));
      parts.narrow(0, half, half).copy_(b.narrow(1, 0, half).t());
      return push("empty, copy_, copy_", parts);
    }
  }
}

void RandomProgram::write() {
  auto a = any_writable();
  const auto b = any();
  const c10::AutoGradMode mode(pick(4) != 0);
  trace_ << (c10::GradMode::is_enabled() ? "write " : "write without grad ");
  switch (pick(10)) {
    case 0:
      trace_ << "add_\n", a.add_(b, 0.25);
      break;
    case 1:
      trace_ << "mul_\n", a.mul_(b.detach());
      break;
    case 2:
      trace_ << "sigmoid_\n", a.sigmoid_();
      break;
    case 3:
      trace_ << "tanh_\n", a.tanh_();
      break;
    case 4:
      trace_ << "copy_\n", a.copy_(b);
      break;
    case 5:
      trace_ << "zero_\n", a.zero_();
      break;
    case 6:
      trace_ << "uniform_\n", a.uniform_();
      break;
    case 7:
      trace_ << "pow_\n", a.pow_(2);
      break;
    case 8:
      trace_ << "masked_fill_\n", a.masked_fill_(b > 0, 0.5);
      break;
    default:
      trace_ << "detached neg_\n", a.detach().neg_();
  }
}

void RandomProgram::write_part() {
  const auto a = any_writable();
  const bool rows = pick(2) == 0;
  const auto first = static_cast<int64_t>(pick(static_cast<size_t>(size_) - 1));
  auto part = (rows ? a : a.t()).narrow(0, first, 2);
  trace_ << (rows ? "rows " : "columns ") << first << ' ';
  const auto b = any().narrow(0, 0, 2);
  switch (pick(4)) {
    case 0:
      trace_ << "part mul_\n", part.mul_(0.5);
      break;
    case 1:
      trace_ << "part copy_\n", part.copy_(b.detach());
      break;
    case 2:
      trace_ << "part fill_\n", part.fill_(0.25);
      break;
    default:
      trace_ << "part add_\n", part.add_(b);
  }
}

void RandomProgram::push(const char* name, at::Tensor tensor) {
  trace_ << name << " -> #" << pool_.size() << '\n';
  pool_.push_back(std::move(tensor));
}

at::Tensor RandomProgram::any() {
  const size_t place = pick(pool_.size());
  trace_ << '#' << place << ' ';
  return pool_[place];
}

at::Tensor RandomProgram::any_writable() {
  for (;;) {
    const size_t place = pick(pool_.size());
    const auto& tensor = pool_[place];
    if (tensor.is_leaf() && tensor.requires_grad()) continue;
    trace_ << '#' << place << ' ';
    return tensor;
  }
}

}  // namespace remat::testing
