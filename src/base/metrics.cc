#include "base/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lineshaft {
namespace {

// C++20's fetch_add for doubles.
void add_to(std::atomic<double>& target, double amount) {
  target.fetch_add(amount, std::memory_order_relaxed);
}

// Exposition 0.0.4: [a-zA-Z_:][a-zA-Z0-9_:]*
bool legal_name(std::string_view name) {
  if (name.empty()) return false;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':';
    const bool digit = c >= '0' && c <= '9';
    if (!letter && !(digit && i > 0)) return false;
  }
  return true;
}

std::string escape(std::string_view text, bool quotes) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '"' && quotes) {
      out += "\\\"";
    } else {
      out.push_back(c);
    }
  }
  return out;
}

std::string labels_text(const MetricLabels& labels) {
  std::string out;
  for (const auto& [name, value] : labels) {
    if (!out.empty()) out.push_back(',');
    out += fmt::format("{}=\"{}\"", name, escape(value, true));
  }
  return out;
}

void print_sample(std::string& out, std::string_view name, std::string_view labels,
                  std::string_view extra, double value) {
  out += name;
  if (!labels.empty() || !extra.empty()) {
    const std::string_view comma = labels.empty() || extra.empty() ? "" : ",";
    fmt::format_to(std::back_inserter(out), "{{{}{}{}}}", labels, comma, extra);
  }
  fmt::format_to(std::back_inserter(out), " {}\n", value);
}

void print_histogram(std::string& out, const std::string& name, const std::string& labels,
                     const Histogram& histogram) {
  uint64_t below = 0;
  for (size_t i = 0; i < histogram.bounds().size(); ++i) {
    below += histogram.bucket(i);
    print_sample(out, name + "_bucket", labels, fmt::format("le=\"{}\"", histogram.bounds()[i]),
                 static_cast<double>(below));
  }
  below += histogram.bucket(histogram.bounds().size());
  print_sample(out, name + "_bucket", labels, "le=\"+Inf\"", static_cast<double>(below));
  print_sample(out, name + "_sum", labels, "", histogram.sum());
  print_sample(out, name + "_count", labels, "", static_cast<double>(below));
}

}  // namespace

void Counter::add(double amount) {
  if (!(amount >= 0.0) || !std::isfinite(amount)) {
    errors_->fetch_add(1, std::memory_order_relaxed);
    return;
  }
  add_to(value_, amount);
}

void Gauge::set(double value) {
  if (!std::isfinite(value)) {
    errors_->fetch_add(1, std::memory_order_relaxed);
    return;
  }
  value_.store(value, std::memory_order_relaxed);
}

void Gauge::add(double amount) {
  if (!std::isfinite(amount)) {
    errors_->fetch_add(1, std::memory_order_relaxed);
    return;
  }
  add_to(value_, amount);
}

Histogram::Histogram(std::vector<double> bounds, std::atomic<uint64_t>* errors)
    : bounds_(std::move(bounds)),
      buckets_(std::make_unique<std::atomic<uint64_t>[]>(bounds_.size() + 1)),
      errors_(errors) {}

void Histogram::observe(double value) {
  if (!std::isfinite(value) || value < 0.0) {
    errors_->fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const auto bound = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  const auto index = static_cast<size_t>(bound - bounds_.begin());
  buckets_[index].fetch_add(1, std::memory_order_relaxed);
  add_to(sum_, value);
}

void Histogram::add_counts(std::span<const uint64_t> counts, double sum) {
  if (counts.size() != bounds_.size() + 1 || !std::isfinite(sum) || sum < 0.0) {
    errors_->fetch_add(1, std::memory_order_relaxed);
    return;
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    buckets_[i].fetch_add(counts[i], std::memory_order_relaxed);
  }
  add_to(sum_, sum);
}

uint64_t Histogram::count() const {
  uint64_t total = 0;
  for (size_t i = 0; i <= bounds_.size(); ++i) total += bucket(i);
  return total;
}

std::vector<double> request_seconds_bounds() {
  return {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
          1.0,   2.5,    5.0,   10.0, 25.0,  50.0, 100, 250,  600};
}

std::vector<double> step_seconds_bounds() {
  return {1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 0.001, 0.0025, 0.005,
          0.01, 0.025,  0.05, 0.1,  0.25,   0.5,  1.0,   2.5,    10.0};
}

Metrics::Metrics() = default;

void Metrics::fill(Series& series, Kind kind, const std::vector<double>& bounds,
                   std::atomic<uint64_t>* errors) {
  switch (kind) {
    case Kind::kCounter: series.counter = std::make_unique<Counter>(errors); break;
    case Kind::kGauge: series.gauge = std::make_unique<Gauge>(errors); break;
    case Kind::kHistogram: series.histogram = std::make_unique<Histogram>(bounds, errors); break;
  }
}

Metrics::Series& Metrics::series(Kind kind, std::string_view name, std::string_view help,
                                 const MetricLabels& labels, const std::vector<double>& bounds) {
  std::lock_guard lock(mutex_);
  auto found = families_.find(name);
  const bool bad_label = std::any_of(labels.begin(), labels.end(), [](const auto& label) {
    return !legal_name(label.first) || label.first.find(':') != std::string::npos;
  });
  const bool clash = found != families_.end() && found->second.kind != kind;
  if (!legal_name(name) || bad_label || clash) {
    errors_.fetch_add(1, std::memory_order_relaxed);
    fill(*strays_.emplace_back(std::make_unique<Series>()), kind, bounds, &errors_);
    return *strays_.back();
  }
  if (found == families_.end()) {
    found = families_.emplace(name, Family{kind, std::string(help), {}}).first;
  }
  Family& family = found->second;
  const std::string key = labels_text(labels);
  for (const auto& one : family.series) {
    if (one->labels == key) return *one;
  }
  Series& added = *family.series.emplace_back(std::make_unique<Series>());
  added.labels = key;
  const auto& first = family.series.front()->histogram;
  fill(added, kind, first ? first->bounds() : bounds, &errors_);
  return added;
}

Counter& Metrics::counter(std::string_view name, std::string_view help,
                          const MetricLabels& labels) {
  return *series(Kind::kCounter, name, help, labels, {}).counter;
}

Gauge& Metrics::gauge(std::string_view name, std::string_view help, const MetricLabels& labels) {
  return *series(Kind::kGauge, name, help, labels, {}).gauge;
}

Histogram& Metrics::histogram(std::string_view name, std::string_view help,
                              const std::vector<double>& bounds, const MetricLabels& labels) {
  return *series(Kind::kHistogram, name, help, labels, bounds).histogram;
}

void Metrics::add_alias(std::string_view name, std::string_view alias) {
  std::lock_guard lock(mutex_);
  if (!legal_name(alias)) {
    errors_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  aliases_.emplace(name, alias);
}

void Metrics::print(std::string& out, const std::string& name, const Family& family) {
  const char* kinds[] = {"counter", "gauge", "histogram"};
  out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, escape(family.help, false), name,
                     kinds[static_cast<size_t>(family.kind)]);
  for (const auto& one : family.series) {
    if (one->counter) print_sample(out, name, one->labels, "", one->counter->value());
    if (one->gauge) print_sample(out, name, one->labels, "", one->gauge->value());
    if (one->histogram) print_histogram(out, name, one->labels, *one->histogram);
  }
}

std::string Metrics::text() const {
  std::lock_guard lock(mutex_);
  std::string out;
  for (const auto& [name, family] : families_) {
    print(out, name, family);
    const auto [begin, end] = aliases_.equal_range(name);
    for (auto it = begin; it != end; ++it) print(out, it->second, family);
  }
  constexpr std::string_view kErrors = "lineshaft_metrics_errors_total";
  out += fmt::format("# HELP {} metric calls with an unusable value or name\n# TYPE {} counter\n",
                     kErrors, kErrors);
  print_sample(out, kErrors, "", "", static_cast<double>(errors_.load()));
  return out;
}

}  // namespace lineshaft
