// Metrics: counters, gauges and histograms, and their Prometheus text form (exposition 0.0.4).
// Thread-safe and lock-free once registered. A call can never fail, throw or wait: a wrong value
// is dropped and counted in lineshaft_metrics_errors_total. Knows no metric of the house by name.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lineshaft {

// Label names and values, in the order in which they are printed.
using MetricLabels = std::vector<std::pair<std::string, std::string>>;

// Only rises. Adding a negative or non-finite amount changes nothing and counts an error.
class Counter {
 public:
  explicit Counter(std::atomic<uint64_t>* errors) : errors_(errors) {}
  void add(double amount = 1.0);
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0.0};
  std::atomic<uint64_t>* errors_;
};

// Any finite value.
class Gauge {
 public:
  explicit Gauge(std::atomic<uint64_t>* errors) : errors_(errors) {}
  void set(double value);
  void add(double amount);
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0.0};
  std::atomic<uint64_t>* errors_;
};

// Counts of observations at most each bound, their number and their sum.
class Histogram {
 public:
  // `bounds`: ascending upper bounds; +Inf is implied.
  Histogram(std::vector<double> bounds, std::atomic<uint64_t>* errors);
  void observe(double value);
  // Many observations at once: counts[i] of bucket i (bounds().size() + 1 of them), `sum` in all.
  // Anything else changes nothing and counts an error.
  void add_counts(std::span<const uint64_t> counts, double sum);
  uint64_t count() const;
  double sum() const { return sum_.load(std::memory_order_relaxed); }
  const std::vector<double>& bounds() const { return bounds_; }
  uint64_t bucket(size_t index) const { return buckets_[index].load(std::memory_order_relaxed); }

 private:
  const std::vector<double> bounds_;
  std::unique_ptr<std::atomic<uint64_t>[]> buckets_;  // bounds + 1, not cumulative
  std::atomic<double> sum_{0.0};
  std::atomic<uint64_t>* errors_;
};

// Bounds from 1 ms to 10 min, for durations of requests, and from 10 us to 10 s for short ones.
std::vector<double> request_seconds_bounds();
std::vector<double> step_seconds_bounds();

// Owns all metrics of a process. References stay valid as long as the registry.
//
// Asking twice for the same name and labels gives the same object. A name that is already of
// another kind, or not a legal metric name, gives an object that is never printed, and counts an
// error.
class Metrics {
 public:
  Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  Counter& counter(std::string_view name, std::string_view help, const MetricLabels& labels = {});
  Gauge& gauge(std::string_view name, std::string_view help, const MetricLabels& labels = {});
  // `bounds` count at the first call for a name.
  Histogram& histogram(std::string_view name, std::string_view help,
                       const std::vector<double>& bounds, const MetricLabels& labels = {});

  // Prints the family `name` a second time under `alias`.
  void add_alias(std::string_view name, std::string_view alias);

  // Prometheus text exposition 0.0.4; families by name, series in order of registration.
  std::string text() const;

 private:
  enum class Kind : uint8_t { kCounter, kGauge, kHistogram };
  struct Series {
    std::string labels;  // `a="b",c="d"`, escaped, without braces
    std::unique_ptr<Counter> counter;
    std::unique_ptr<Gauge> gauge;
    std::unique_ptr<Histogram> histogram;
  };
  struct Family {
    Kind kind = Kind::kCounter;
    std::string help;
    std::vector<std::unique_ptr<Series>> series;
  };

  Series& series(Kind kind, std::string_view name, std::string_view help,
                 const MetricLabels& labels, const std::vector<double>& bounds);
  static void fill(Series& series, Kind kind, const std::vector<double>& bounds,
                   std::atomic<uint64_t>* errors);
  static void print(std::string& out, const std::string& name, const Family& family);

  mutable std::mutex mutex_;
  std::map<std::string, Family, std::less<>> families_;
  std::multimap<std::string, std::string, std::less<>> aliases_;
  std::vector<std::unique_ptr<Series>> strays_;  // of refused registrations
  std::atomic<uint64_t> errors_{0};
};

}  // namespace lineshaft
