#include "decoding/logits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "decoding/math.h"
#include "decoding/scan.h"

namespace lineshaft::decoding {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kMassOne = 0x1p40;
constexpr float kMasslessBelow = 28.0f;  // e^-28 < 2^-40

bool by_token(const TokenCounts::Entry& entry, TokenId token) { return entry.token < token; }

// A set within a millionth of top_p counts as reaching it: 0.1 as a float is a little more than a
// tenth, and must not ask for a second of ten equal tokens.
uint64_t share_of_mass(float top_p, double total) {
  return static_cast<uint64_t>(static_cast<double>(top_p) * (1.0 - 1e-6) * total);
}

}  // namespace

void TokenCounts::add_prompt(std::span<const TokenId> tokens) {
  std::vector<Entry> added;
  added.reserve(tokens.size() + entries_.size());
  for (const TokenId token : tokens) added.push_back({token, 0});
  added.insert(added.end(), entries_.begin(), entries_.end());
  // Of equal tokens the one with the answer's count comes first and survives.
  std::sort(added.begin(), added.end(), [](const Entry& a, const Entry& b) {
    return a.token != b.token ? a.token < b.token : a.answered > b.answered;
  });
  const auto same = [](const Entry& a, const Entry& b) { return a.token == b.token; };
  added.erase(std::unique(added.begin(), added.end(), same), added.end());
  entries_.assign(added.begin(), added.end());
}

void TokenCounts::add_answered(TokenId token) {
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), token, by_token);
  if (at != entries_.end() && at->token == token) {
    ++at->answered;
  } else {
    entries_.insert(at, {token, 1});
  }
}

bool has_penalties(const SamplingParams& params) {
  return params.repetition_penalty != 1.0f || params.presence_penalty != 0.0f ||
         params.frequency_penalty != 0.0f;
}

bool has_adjustments(const SamplingParams& params) {
  return has_penalties(params) || !params.logit_bias.empty();
}

void adjust_logits(const SamplingParams& params, const TokenCounts& counts,
                   std::span<float> logits) {
  const auto inside = [&](TokenId token) {
    return token >= 0 && static_cast<size_t>(token) < logits.size();
  };
  for (const auto& [token, bias] : params.logit_bias) {
    if (inside(token)) logits[token] += bias;
  }
  if (!has_penalties(params)) return;
  for (const auto& [token, answered] : counts.entries()) {
    if (!inside(token)) continue;
    float x = logits[token];
    x = x > 0.0f ? x / params.repetition_penalty : x * params.repetition_penalty;
    if (answered > 0) {
      x -= params.presence_penalty;
      x -= params.frequency_penalty * static_cast<float>(answered);
    }
    logits[token] = x;
  }
}

void select_top_k(std::span<const float> values, float shift, float factor, int64_t k,
                  std::vector<Candidate>& out) {
  // Collects up to 2 k tokens, then drops the worse half and raises the bar: a later token must be
  // strictly above the k-th so far, for at equal values the lower id stays.
  out.clear();
  const auto kth = static_cast<size_t>(k) - 1;
  const auto drop = [&] {
    std::nth_element(out.begin(), out.begin() + static_cast<ptrdiff_t>(kth), out.end(), better);
    out.resize(kth + 1);
  };
  float bar = -kInfinity;
  bool full = false;
  for (size_t begin = 0; begin < values.size(); begin += kScanWidth) {
    const size_t end = std::min(begin + kScanWidth, values.size());
    if (full && end - begin == kScanWidth &&
        !((largest_of_64(values.data() + begin) - shift) * factor > bar)) {
      continue;
    }
    for (size_t i = begin; i < end; ++i) {
      const float z = (values[i] - shift) * factor;
      if (!(z > bar) && (full || !(z == bar))) continue;
      out.push_back({z, static_cast<TokenId>(i)});
      if (out.size() < 2 * (kth + 1)) continue;
      drop();
      bar = out[kth].z;
      full = true;
    }
  }
  if (out.size() > kth + 1) drop();
}

uint64_t mass_of(float z) {
  return z > -kMasslessBelow ? static_cast<uint64_t>(exp(static_cast<double>(z)) * kMassOne) : 0;
}

void keep_mass(std::vector<Candidate>& candidates, uint64_t mass) {
  // Buckets of equal width in z, best first: only the bucket in which the sum reaches `mass` needs
  // an order inside.
  constexpr int kBuckets = 1024;
  float range = 0.0f;
  for (const Candidate& c : candidates) range = std::max(range, std::min(-c.z, kMasslessBelow));
  const float scale = range > 0.0f ? kBuckets / range : 0.0f;
  const auto bucket_of = [&](const Candidate& c) {
    return std::min(static_cast<int>(std::min(-c.z, kMasslessBelow) * scale), kBuckets - 1);
  };
  std::array<uint64_t, kBuckets> masses{};
  for (const Candidate& c : candidates) masses[bucket_of(c)] += mass_of(c.z);
  uint64_t missing = std::max<uint64_t>(mass, 1);
  int border = 0;
  while (border < kBuckets - 1 && masses[border] < missing) missing -= masses[border++];

  const auto low = std::partition(candidates.begin(), candidates.end(),
                                  [&](const Candidate& c) { return bucket_of(c) < border; });
  auto high = std::partition(low, candidates.end(),
                             [&](const Candidate& c) { return bucket_of(c) == border; });
  std::sort(low, high, better);
  for (auto it = low; it != high; ++it) {
    const uint64_t own = mass_of(it->z);
    if (own >= missing) {
      high = it + 1;
      break;
    }
    missing -= own;
  }
  candidates.erase(high, candidates.end());
}

CandidateFilter::CandidateFilter(const kernels::Kernels& kernels, int32_t vocab)
    : kernels_(kernels), z_(static_cast<size_t>(vocab)) {
  candidates_.reserve(static_cast<size_t>(vocab));
}

bool CandidateFilter::needed(const SamplingParams& params, int64_t vocab) {
  return (params.top_k > 0 && params.top_k < vocab) || params.top_p < 1.0f;
}

bool CandidateFilter::nucleus_of_row(std::span<const float> logits, float highest, float factor,
                                     float top_p) {
  const std::span<float> z(z_.data(), logits.size());
  for (size_t i = 0; i < logits.size(); ++i) z[i] = (logits[i] - highest) * factor;
  const float lse = kernels_.log_sum_exp(z.data(), static_cast<int64_t>(z.size()));
  if (!std::isfinite(lse)) return false;
  const double total = exp(static_cast<double>(lse));
  // All tokens below `floor` together have at most (1 - top_p) of the mass, so the smallest set
  // lies above it. The thousandth covers rounding.
  const double rest = (1.0 - static_cast<double>(top_p)) * total / static_cast<double>(z.size());
  const float floor = kernels::log_f32(static_cast<float>(rest)) - 1e-3f;
  candidates_.clear();
  for (size_t i = 0; i < z.size(); ++i) {
    if (z[i] >= floor) candidates_.push_back({z[i], static_cast<TokenId>(i)});
  }
  keep_mass(candidates_, share_of_mass(top_p, total * kMassOne));
  return true;
}

std::span<const Candidate> CandidateFilter::filter(std::span<const float> logits, float highest,
                                                   const SamplingParams& params) {
  const float factor = temperature_factor(params);
  if (params.top_k > 0 && params.top_k < static_cast<int64_t>(logits.size())) {
    select_top_k(logits, highest, factor, params.top_k, candidates_);
    if (params.top_p < 1.0f) {
      uint64_t total = 0;
      for (const Candidate& c : candidates_) total += mass_of(c.z);
      keep_mass(candidates_, share_of_mass(params.top_p, static_cast<double>(total)));
    }
  } else if (!nucleus_of_row(logits, highest, factor, params.top_p)) {
    return {};
  }
  const float floor = min_p_floor(params.min_p);
  std::erase_if(candidates_, [&](const Candidate& c) { return !(c.z >= floor); });
  return candidates_;
}

float min_p_floor(float min_p) {
  return min_p > 0.0f ? std::min(kernels::log_f32(min_p), 0.0f) : -kInfinity;
}

float temperature_factor(const SamplingParams& params) { return 1.0f / params.temperature; }

}  // namespace lineshaft::decoding
