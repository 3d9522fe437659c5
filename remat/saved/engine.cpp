#include "remat/saved/engine.h"

#include <mutex>

#include <ATen/SavedTensorHooks.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include "remat/saved/handle.h"

namespace remat::saved {

namespace {

using torch::autograd::Engine;
using torch::autograd::SavedVariableHooks;

/// Autograd asks its engine for the hooks of a tensor that it saves. This one forwards everything
/// to the engine it found, Python's or the plain one, and answers that question alone. Needs no
/// Python object and no GIL, and torch.func, which refuses hooks that are pushed, does not see it.
/// The virtual functions are those of one minor version of torch.
class ForwardingEngine final : public Engine {
 public:
  explicit ForwardingEngine(Engine& inner) : inner_(inner) {}

  torch::autograd::variable_list execute(const torch::autograd::edge_list& roots,
                                         const torch::autograd::variable_list& inputs,
                                         bool keep_graph, bool create_graph, bool accumulate_grad,
                                         const torch::autograd::edge_list& outputs) override {
    return inner_.execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
  }

  c10::intrusive_ptr<at::ivalue::Future> execute_with_graph_task(
      const std::shared_ptr<torch::autograd::GraphTask>& graph_task,
      c10::intrusive_ptr<torch::autograd::Node> graph_root,
      torch::autograd::InputBuffer&& input_buffer) override {
    return inner_.execute_with_graph_task(graph_task, std::move(graph_root),
                                          std::move(input_buffer));
  }

  std::unique_ptr<torch::autograd::AnomalyMetadata> make_anomaly_metadata() override {
    return inner_.make_anomaly_metadata();
  }

  void thread_on_exception(const std::shared_ptr<torch::autograd::GraphTask>& graph_task,
                           const c10::intrusive_ptr<torch::autograd::Node>& fn,
                           std::exception& error) override {
    inner_.thread_on_exception(graph_task, fn, error);
  }

  void thread_init(int device, const std::shared_ptr<torch::autograd::ReadyQueue>& ready_queue,
                   bool should_increment) override {
    inner_.thread_init(device, ready_queue, should_increment);
  }

  /// The innermost win: hooks that the user pushed in the region before the region, which comes
  /// before those around it.
  std::unique_ptr<SavedVariableHooks> get_default_saved_variable_hooks() override {
    auto* recorder = record::Recorder::current();
    if (recorder == nullptr) return inner_.get_default_saved_variable_hooks();
    const size_t pushed = at::SavedTensorDefaultHooks::get_tls_state().stack.size();
    auto users = pushed == 0 ? nullptr : inner_.get_default_saved_variable_hooks();
    if (users && pushed > recorder->hooks_around()) return users;
    return std::make_unique<Handle>(recorder->recording(), std::move(users));
  }

  Engine& inner() { return inner_; }

 private:
  Engine& inner_;
};

ForwardingEngine* forwarding = nullptr;

}  // namespace

void install_engine() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Never destroyed: an engine's destructor stops its threads, and saved tensors may outlive
    // every static.
    forwarding = new ForwardingEngine(Engine::get_default_engine());
    record::set_hooks_factory(
        [] { return forwarding->inner().get_default_saved_variable_hooks(); });
    torch::autograd::set_default_engine_stub([]() -> Engine& { return *forwarding; });
  });
}

void when_backward_ends(std::function<void()> done) {
  if (torch::autograd::get_current_graph_task_id() == -1) return;
  Engine::get_default_engine().queue_callback(std::move(done));
}

}  // namespace remat::saved
