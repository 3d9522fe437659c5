#include "remat/plan/max_flow.h"

#include <algorithm>

namespace remat::plan {

namespace {

size_t at(int32_t id) { return static_cast<size_t>(id); }

}  // namespace

MaxFlow::MaxFlow(Node nodes, Node source, Node sink)
    : source_(source), sink_(sink), level_(at(nodes), -1), next_out_(at(nodes)) {}

MaxFlow::Edge MaxFlow::add(Node from, Node to, Capacity capacity) {
  const auto edge = static_cast<Edge>(target_.size());
  target_.push_back(to);
  target_.push_back(from);
  residual_.push_back(capacity);
  residual_.push_back(0);
  return edge;
}

void MaxFlow::restore(const State& state) {
  residual_ = state.residual;
  flow_ = state.flow;
}

void MaxFlow::run() {
  if (first_out_.empty()) sort_edges();
  while (find_levels()) push_blocking_flow();
}

void MaxFlow::sort_edges() {
  first_out_.assign(level_.size() + 1, 0);
  const auto tail = [&](size_t edge) { return at(target_[edge ^ 1]); };
  for (size_t edge = 0; edge < target_.size(); ++edge) ++first_out_[tail(edge) + 1];
  for (size_t node = 1; node < first_out_.size(); ++node) first_out_[node] += first_out_[node - 1];
  out_.resize(target_.size());
  auto next = first_out_;
  for (size_t edge = 0; edge < target_.size(); ++edge) {
    out_[at(next[tail(edge)]++)] = static_cast<Edge>(edge);
  }
}

bool MaxFlow::find_levels() {
  std::fill(level_.begin(), level_.end(), -1);
  queue_.assign(1, source_);
  level_[at(source_)] = 0;
  for (size_t head = 0; head < queue_.size(); ++head) {
    const Node node = queue_[head];
    for (Edge i = first_out_[at(node)]; i < first_out_[at(node) + 1]; ++i) {
      const Edge edge = out_[at(i)];
      const Node to = target_[at(edge)];
      if (residual_[at(edge)] <= 0 || level_[at(to)] >= 0) continue;
      level_[at(to)] = level_[at(node)] + 1;
      queue_.push_back(to);
    }
  }
  return level_[at(sink_)] >= 0;
}

void MaxFlow::push_blocking_flow() {
  std::copy(first_out_.begin(), first_out_.end() - 1, next_out_.begin());
  path_.clear();
  while (const Capacity pushed = push_path()) flow_ += pushed;
}

/// Goes on from the end of path_ to the sink and pushes what fits; 0 when nothing is left. Keeps
/// the part of the path that still has capacity. No recursion: paths are as long as the step.
MaxFlow::Capacity MaxFlow::push_path() {
  Node node = path_.empty() ? source_ : target_[at(path_.back())];
  while (node != sink_) {
    Edge& next = next_out_[at(node)];
    for (; next < first_out_[at(node) + 1]; ++next) {
      const Edge edge = out_[at(next)];
      if (residual_[at(edge)] > 0 && level_[at(target_[at(edge)])] == level_[at(node)] + 1) break;
    }
    if (next < first_out_[at(node) + 1]) {
      path_.push_back(out_[at(next)]);
      node = target_[at(path_.back())];
    } else if (path_.empty()) {
      return 0;
    } else {
      node = target_[at(path_.back() ^ 1)];
      path_.pop_back();
      ++next_out_[at(node)];
    }
  }
  Capacity pushed = kUnlimited;
  for (const Edge edge : path_) pushed = std::min(pushed, residual_[at(edge)]);
  size_t full = path_.size();
  for (size_t i = path_.size(); i-- > 0;) {
    residual_[at(path_[i])] -= pushed;
    residual_[at(path_[i] ^ 1)] += pushed;
    if (residual_[at(path_[i])] == 0) full = i;
  }
  path_.resize(full);
  return pushed;
}

}  // namespace remat::plan
