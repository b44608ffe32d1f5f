// At stake: metrics may never fail a request, and what a scraper reads must be well formed.
#include "base/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>
#include <vector>

namespace lineshaft {
namespace {

TEST(Metrics, prints_the_text_exposition_format) {
  Metrics metrics;
  metrics.counter("x_total", "how many\nlines").add(2);
  metrics.gauge("kv_blocks", "blocks", {{"state", "fr\"ee"}}).set(7.5);
  metrics.gauge("kv_blocks", "blocks", {{"state", "held"}}).set(3);
  Histogram& seconds = metrics.histogram("t_seconds", "time", {0.5, 1.0}, {{"part", "a"}});
  for (const double value : {0.25, 0.5, 0.75, 9.0}) seconds.observe(value);
  EXPECT_EQ(metrics.text(),
            "# HELP kv_blocks blocks\n# TYPE kv_blocks gauge\n"
            "kv_blocks{state=\"fr\\\"ee\"} 7.5\nkv_blocks{state=\"held\"} 3\n"
            "# HELP t_seconds time\n# TYPE t_seconds histogram\n"
            "t_seconds_bucket{part=\"a\",le=\"0.5\"} 2\nt_seconds_bucket{part=\"a\",le=\"1\"} 3\n"
            "t_seconds_bucket{part=\"a\",le=\"+Inf\"} 4\nt_seconds_sum{part=\"a\"} 10.5\n"
            "t_seconds_count{part=\"a\"} 4\n"
            "# HELP x_total how many\\nlines\n# TYPE x_total counter\nx_total 2\n"
            "# HELP lineshaft_metrics_errors_total metric calls with an unusable value or name\n"
            "# TYPE lineshaft_metrics_errors_total counter\nlineshaft_metrics_errors_total 0\n");
}

TEST(Metrics, wrong_values_are_dropped_and_counted) {
  Metrics metrics;
  Counter& counter = metrics.counter("a_total", "a");
  counter.add(-1);
  counter.add(NAN);
  counter.add(3);
  metrics.histogram("b_seconds", "b", {1.0}).observe(-2);
  metrics.gauge("a_total", "of another kind").set(9);
  metrics.counter("not legal", "x").add();
  EXPECT_EQ(counter.value(), 3.0);
  const std::string text = metrics.text();
  EXPECT_NE(text.find("\nlineshaft_metrics_errors_total 5\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("not legal"), std::string::npos);
}

TEST(Metrics, many_observations_are_added_at_once) {
  Metrics metrics;
  Histogram& h = metrics.histogram("lineshaft_queue_time_seconds", "Wait.", {0.1, 1.0});
  h.add_counts(std::vector<uint64_t>{2, 0, 1}, 7.25);
  h.observe(0.5);
  EXPECT_EQ(h.count(), 4u);
  EXPECT_EQ(h.bucket(0), 2u);
  EXPECT_EQ(h.bucket(1), 1u);
  EXPECT_DOUBLE_EQ(h.sum(), 7.75);
  h.add_counts(std::vector<uint64_t>{1}, 1.0);   // not this histogram's buckets
  EXPECT_EQ(h.count(), 4u);
}

TEST(Metrics, an_alias_prints_the_same_numbers) {
  Metrics metrics;
  metrics.add_alias("a_total", "vllm:a_total");
  metrics.counter("a_total", "a").add(4);
  EXPECT_NE(metrics.text().find("\nvllm:a_total 4\n"), std::string::npos);
}

TEST(Metrics, counts_from_many_threads) {
  Metrics metrics;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&metrics] {
      for (int i = 0; i < 10'000; ++i) {
        metrics.counter("n_total", "n").add();
        metrics.histogram("s_seconds", "s", {1.0}).observe(0.5);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(metrics.counter("n_total", "n").value(), 40'000.0);
  EXPECT_EQ(metrics.histogram("s_seconds", "s", {}).count(), 40'000u);
}

}  // namespace
}  // namespace lineshaft
