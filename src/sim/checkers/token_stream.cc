#include "sim/checkers/token_stream.h"

#include <fmt/format.h>

#include "sim/token_function.h"

namespace lineshaft::sim {

TokenStreamChecker::TokenStreamChecker(const std::vector<Caller>& callers) {
  for (const Caller& caller : callers) {
    const Request& request = *caller.request;
    Order order;
    order.caller = &caller;
    for (int32_t choice = 0; choice < request.sampling.n; ++choice) {
      WholeAnswer answer = whole_answer(request, choice);
      order.choices.emplace(choice, Expected{std::move(answer.tokens), answer.stops});
    }
    orders_.emplace(request.id.value, std::move(order));
  }
}

void TokenStreamChecker::violation(const TokenEvent& event, const std::string& what) {
  violations_.push_back(
      fmt::format("request {} choice {}: {}", event.request.value, event.choice, what));
}

void TokenStreamChecker::on_cancel(RequestId request, int32_t choice) {
  for (auto& [index, expected] : orders_.at(request.value).choices) {
    if (choice < 0 || choice == index) expected.cancelled = true;
  }
}

void TokenStreamChecker::on_event(const TokenEvent& event, Instant now) {
  const auto it = orders_.find(event.request.value);
  if (it == orders_.end()) return violation(event, "was never made");
  Order& order = it->second;
  if (event.kind == TokenEvent::Kind::kAccepted) {
    if (order.accepted || order.refused) violation(event, "accepted twice");
    if (order.caller->impossible) violation(event, "accepted, and can't fit");
    if (event.choice != 0) violation(event, "accepted on another choice than 0");
    order.accepted = true;
    return;
  }
  if (!order.accepted) return on_refusal(order, event, now);
  if (!order.choices.contains(event.choice)) return violation(event, "has no such choice");
  if (order.choices.at(event.choice).finished) return violation(event, "event after the end");
  if (event.kind == TokenEvent::Kind::kToken) {
    on_token(order, event);
  } else {
    on_finish(order, event, now);
  }
}

void TokenStreamChecker::on_refusal(Order& order, const TokenEvent& event, Instant now) {
  const bool right = event.kind == TokenEvent::Kind::kFinish && !order.refused &&
                     event.finish == FinishReason::kError && !event.error.ok();
  if (!right) violation(event, "neither accepted nor refused");
  const StatusCode code = event.error.code();
  const bool late = code == StatusCode::kDeadlineExceeded;
  if (late && order.caller->request->deadline > now) violation(event, "refused as late too early");
  if (!late && order.caller->impossible != (code == StatusCode::kOutOfRange)) {
    violation(event, "refused with the wrong reason: " + std::string(message_of(event.error)));
  }
  order.refused = true;
  ++refused_;
}

void TokenStreamChecker::on_token(Order& order, const TokenEvent& event) {
  const Expected& expected = order.choices.at(event.choice);
  std::vector<TokenId>& answer = answers_[{event.request.value, event.choice}];
  const size_t position = answer.size();
  if (event.position != static_cast<int32_t>(position)) {
    violation(event, fmt::format("position {} after {} tokens", event.position, position));
  }
  if (position >= expected.tokens.size()) {
    violation(event, "more tokens than the answer has");
  } else if (expected.tokens[position] != event.token) {
    violation(event, fmt::format("wrong token at position {}", position));
  }
  answer.push_back(event.token);
}

void TokenStreamChecker::on_finish(Order& order, const TokenEvent& event, Instant now) {
  Expected& expected = order.choices.at(event.choice);
  expected.finished = true;
  check_end(order, expected, event, now);
  const Request& request = *order.caller->request;
  const auto generated =
      static_cast<int32_t>(answers_[{event.request.value, event.choice}].size());
  const Usage& usage = event.usage;
  if (usage.generated_tokens != generated ||
      usage.prompt_tokens != static_cast<int32_t>(request.prompt.size()) ||
      usage.cached_tokens < 0 || usage.cached_tokens >= usage.prompt_tokens) {
    violation(event, fmt::format("usage {}/{}/{} with {} tokens", usage.prompt_tokens,
                                 usage.cached_tokens, usage.generated_tokens, generated));
  }
}

void TokenStreamChecker::check_end(const Order& order, const Expected& expected,
                                   const TokenEvent& event, Instant now) {
  const size_t generated = answers_[{event.request.value, event.choice}].size();
  const bool whole = generated == expected.tokens.size();
  switch (event.finish) {
    case FinishReason::kStop:
      if (!whole || !expected.stops || event.stop_token != TokenFunction::kStop) {
        violation(event, fmt::format("stopped after {} tokens", generated));
      }
      break;
    case FinishReason::kLength:
      if (!whole || expected.stops) {
        violation(event, fmt::format("reached its length with {} tokens", generated));
      }
      break;
    case FinishReason::kCancelled:
      if (!expected.cancelled) violation(event, "nobody cancelled it");
      ++cancelled_;
      break;
    case FinishReason::kError:
      if (event.error.code() != StatusCode::kDeadlineExceeded ||
          order.caller->request->deadline > now) {
        violation(event, "failed: " + std::string(message_of(event.error)));
      }
      ++late_;
      break;
  }
}

void TokenStreamChecker::at_end() {
  for (const auto& [id, order] : orders_) {
    if (order.refused) continue;
    for (const auto& [choice, expected] : order.choices) {
      if (expected.finished) continue;
      violations_.push_back(fmt::format("request {} choice {}: no end", id, choice));
    }
  }
}

}  // namespace lineshaft::sim
