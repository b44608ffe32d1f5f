#include "lineshaft/engine_metrics.h"

#include <array>
#include <string>
#include <tuple>
#include <vector>

namespace lineshaft::app {
namespace {

std::vector<double> engine_bounds() {
  return {node::kTimeBounds.begin(), node::kTimeBounds.end()};
}

// The samples that `now` has and `before` had not.
void add_samples(Histogram& histogram, const node::TimeHistogram& now,
                 const node::TimeHistogram& before) {
  if (now.count == before.count) return;
  std::array<uint64_t, std::tuple_size_v<decltype(now.counts)>> counts;
  for (size_t i = 0; i < counts.size(); ++i) counts[i] = now.counts[i] - before.counts[i];
  histogram.add_counts(counts, now.sum_seconds - before.sum_seconds);
}

Histogram& step_seconds(Metrics& m, const std::string& part) {
  return m.histogram("lineshaft_step_seconds", "Compute time of a step.", engine_bounds(),
                     {{"part", part}});
}

void add_rise(Counter& counter, uint64_t now, uint64_t before) {
  if (now != before) counter.add(static_cast<double>(now - before));
}

}  // namespace

const Histogram& decode_step_seconds(Metrics& metrics) { return step_seconds(metrics, "decode"); }

EngineMetrics::EngineMetrics(Metrics& m)
    : time_to_first_token_(m.histogram("lineshaft_time_to_first_token_seconds",
                                       "From arrival to the first token of a request.",
                                       engine_bounds())),
      inter_token_latency_(m.histogram("lineshaft_inter_token_latency_seconds",
                                       "Between two tokens of one answer.",
                                       engine_bounds())),
      request_seconds_(m.histogram("lineshaft_request_seconds",
                                   "From arrival to the end of a request.",
                                   engine_bounds())),
      queue_time_(m.histogram("lineshaft_queue_time_seconds",
                              "From arrival to the first step of a request.", engine_bounds())),
      step_decode_(step_seconds(m, "decode")),
      step_mixed_(step_seconds(m, "mixed")),
      prompt_tokens_(m.counter("lineshaft_prompt_tokens_total", "Prompt tokens of requests.")),
      cached_tokens_(m.counter("lineshaft_cached_tokens_total",
                               "Prompt tokens whose keys and values were reused.",
                               {{"tier", "memory"}})),
      generated_tokens_(m.counter("lineshaft_generated_tokens_total", "Generated tokens.")),
      preemptions_(m.counter("lineshaft_preemptions_total",
                             "Sequences that lost their blocks to another and began again.")),
      running_requests_(m.gauge("lineshaft_running_requests", "Requests that have started.")),
      waiting_requests_(m.gauge("lineshaft_waiting_requests", "Requests that have not started.")),
      blocks_free_(m.gauge("lineshaft_kv_blocks", "KV blocks by state.", {{"state", "free"}})),
      blocks_cached_(m.gauge("lineshaft_kv_blocks", "KV blocks by state.", {{"state", "cached"}})),
      blocks_held_(m.gauge("lineshaft_kv_blocks", "KV blocks by state.", {{"state", "held"}})) {}

void EngineMetrics::publish(const node::EngineStats& stats) {
  publish_gauges(stats);
  publish_totals(stats);
  last_ = stats;
}

void EngineMetrics::publish_gauges(const node::EngineStats& stats) {
  running_requests_.set(stats.requests_running);
  waiting_requests_.set(stats.requests_waiting);
  blocks_free_.set(stats.blocks_free);
  blocks_cached_.set(stats.blocks_cached);
  blocks_held_.set(stats.blocks_held);
}

void EngineMetrics::publish_totals(const node::EngineStats& stats) {
  add_rise(prompt_tokens_, stats.prompt_tokens, last_.prompt_tokens);
  add_rise(cached_tokens_, stats.cached_tokens, last_.cached_tokens);
  add_rise(generated_tokens_, stats.generated_tokens, last_.generated_tokens);
  add_rise(preemptions_, stats.scheduler.preemptions, last_.scheduler.preemptions);
  add_samples(time_to_first_token_, stats.time_to_first_token, last_.time_to_first_token);
  add_samples(inter_token_latency_, stats.inter_token_latency, last_.inter_token_latency);
  add_samples(request_seconds_, stats.request_time, last_.request_time);
  add_samples(queue_time_, stats.queue_time, last_.queue_time);
  add_samples(step_decode_, stats.decode_step_time, last_.decode_step_time);
  add_samples(step_mixed_, stats.mixed_step_time, last_.mixed_step_time);
}

}  // namespace lineshaft::app
