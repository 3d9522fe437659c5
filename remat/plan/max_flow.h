#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace remat::plan {

/// Maximum flow by Dinic's method (Dinitz 1970). Capacities may grow between runs: the next run
/// goes on from the flow it finds.
class MaxFlow {
 public:
  using Node = int32_t;
  using Edge = int32_t;
  using Capacity = int64_t;
  static constexpr Capacity kUnlimited = INT64_MAX / 8;

  MaxFlow(Node nodes, Node source, Node sink);

  /// Edges are added before the first run.
  Edge add(Node from, Node to, Capacity capacity);
  void grow(Edge edge, Capacity amount) { residual_[static_cast<size_t>(edge)] += amount; }
  void run();
  /// After a run: whether the node is on the source's side of the minimum cut nearest to the
  /// source.
  [[nodiscard]] bool at_source(Node node) const { return level_[static_cast<size_t>(node)] >= 0; }
  [[nodiscard]] Capacity flow() const { return flow_; }

  /// The flow so far, to come back to.
  struct State {
    std::vector<Capacity> residual;
    Capacity flow = 0;
  };
  [[nodiscard]] State state() const { return {residual_, flow_}; }
  void restore(const State& state);

 private:
  void sort_edges();
  bool find_levels();
  void push_blocking_flow();
  Capacity push_path();

  Node source_;
  Node sink_;
  Capacity flow_ = 0;
  std::vector<Node> target_;        ///< of every edge; an edge and its reverse are 2k and 2k + 1
  std::vector<Capacity> residual_;  ///< of every edge
  std::vector<Edge> out_;           ///< edges by the node they leave
  std::vector<Edge> first_out_;     ///< into out_, one more than nodes; empty before the first run
  std::vector<int32_t> level_;      ///< distance from the source; -1: not reached
  std::vector<Edge> next_out_;      ///< of every node the edge to try next
  std::vector<Node> queue_;
  std::vector<Edge> path_;
};

}  // namespace remat::plan
