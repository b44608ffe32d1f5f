// EngineMetrics: an engine's totals under the names that docs/api.md promises. Used by the
// engine's thread only; decides nothing and keeps nothing but what it published last.
#pragma once

#include "base/metrics.h"
#include "node/stats.h"

namespace lineshaft::app {

// Compute times of steps without prompt rows, as an EngineMetrics over `metrics` publishes them.
const Histogram& decode_step_seconds(Metrics& metrics);

class EngineMetrics {
 public:
  explicit EngineMetrics(Metrics& metrics);

  // Gauges, and what the totals rose by since the last call.
  void publish(const node::EngineStats& stats);

 private:
  void publish_gauges(const node::EngineStats& stats);
  void publish_totals(const node::EngineStats& stats);

  node::EngineStats last_;
  Histogram& time_to_first_token_;
  Histogram& inter_token_latency_;
  Histogram& request_seconds_;
  Histogram& queue_time_;
  Histogram& step_decode_;
  Histogram& step_mixed_;
  Counter& prompt_tokens_;
  Counter& cached_tokens_;
  Counter& generated_tokens_;
  Counter& preemptions_;
  Gauge& running_requests_;
  Gauge& waiting_requests_;
  Gauge& blocks_free_;
  Gauge& blocks_cached_;
  Gauge& blocks_held_;
};

}  // namespace lineshaft::app
