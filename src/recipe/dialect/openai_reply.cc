#include "recipe/dialect/openai_reply.h"

#include <cmath>
#include <set>
#include <utility>

#include "base/json.h"
#include "base/utf8.h"

namespace lineshaft::recipe {
namespace {

// OpenAI's number for "next to impossible": its types have no null and JSON has no infinity.
constexpr float kLowestLogprob = -9999.0f;

void append_logprob(std::string& out, float value) {
  append_json_float(out, std::isfinite(value) ? value : kLowestLogprob);
}

std::string_view bytes_of(const Vocab& vocab, TokenId token) {
  const auto index = static_cast<size_t>(token);
  return index < vocab.bytes.size() ? std::string_view(vocab.bytes[index]) : std::string_view{};
}

bool is_control(const Vocab& vocab, TokenId token) {
  const auto index = static_cast<size_t>(token);
  return index < vocab.kinds.size() && vocab.kinds[index] == TokenKind::kControl;
}

void append_usage(std::string& out, const TokenUsage& usage) {
  fmt::format_to(std::back_inserter(out),
                 R"({{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},)"
                 R"("prompt_tokens_details":{{"cached_tokens":{}}},)"
                 R"("completion_tokens_details":{{"reasoning_tokens":{}}},)"
                 R"("prompt_cache_hit_tokens":{},"prompt_cache_miss_tokens":{}}})",
                 usage.prompt_tokens, usage.completion_tokens,
                 usage.prompt_tokens + usage.completion_tokens, usage.cached_tokens,
                 usage.reasoning_tokens, usage.cached_tokens,
                 usage.prompt_tokens - usage.cached_tokens);
}

std::string_view finish_reason(Ending ending) {
  switch (ending) {
    case Ending::kLength: return "length";
    case Ending::kCalls: return "tool_calls";
    case Ending::kStop:
    case Ending::kStopString: break;
  }
  return "stop";
}

// {"id":...,"object":...,"created":...,"model":...,"system_fingerprint":...
std::string object_head(const ReplyHead& head, std::string_view object) {
  std::string out = "{\"id\":";
  append_json_string(out, head.id);
  out += fmt::format(",\"object\":\"{}\",\"created\":{},\"model\":", object, head.created);
  append_json_string(out, head.model);
  out += ",\"system_fingerprint\":";
  append_json_string(out, head.system_fingerprint);
  return out;
}

// {"token":...,"logprob":...,"bytes":[...] without the closing brace.
void append_entry(std::string& out, const Vocab& vocab, TokenId token, float logprob) {
  const std::string_view bytes = bytes_of(vocab, token);
  out += "{\"token\":";
  append_json_string(out, readable_token(bytes));
  out += ",\"logprob\":";
  append_logprob(out, logprob);
  out += ",\"bytes\":";
  // A control token is no part of the text, so it has no bytes there.
  if (is_control(vocab, token)) {
    out += "null";
    return;
  }
  out += '[';
  for (size_t i = 0; i < bytes.size(); ++i) {
    fmt::format_to(std::back_inserter(out), "{}{}", i > 0 ? "," : "",
                   static_cast<unsigned>(static_cast<uint8_t>(bytes[i])));
  }
  out += ']';
}

// An array of tokens.
void append_logprob_entries(std::string& out, std::span<const AnswerToken> tokens,
                            const Vocab& vocab) {
  out += '[';
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) out += ',';
    append_entry(out, vocab, tokens[i].token, tokens[i].logprob);
    out += ",\"top_logprobs\":[";
    for (size_t k = 0; k < tokens[i].top.size(); ++k) {
      if (k > 0) out += ',';
      append_entry(out, vocab, tokens[i].top[k].token, tokens[i].top[k].logprob);
      out += '}';
    }
    out += "]}";
  }
  out += ']';
}

// The parts that both dialects have in common; what a choice looks like differs.
class Writer : public ReplyWriter {
 public:
  Writer(ReplyHead head, std::shared_ptr<const Vocab> vocab, std::string_view whole_object,
         std::string_view chunk_object)
      : head_(std::move(head)),
        vocab_(std::move(vocab)),
        whole_head_(object_head(head_, whole_object)),
        chunk_head_(object_head(head_, chunk_object)) {}

  std::string whole(std::span<const Answer> answers, const TokenUsage& usage) override {
    std::string out = whole_head_;
    out += ",\"choices\":[";
    for (size_t i = 0; i < answers.size(); ++i) {
      if (i > 0) out += ',';
      append_answer(out, answers[i]);
    }
    out += "],\"usage\":";
    append_usage(out, usage);
    append_warnings(out, head_.warnings);
    out += '}';
    return out;
  }

  void begin(ReplyEvents& out, const TokenUsage&) override {
    for (int32_t index = 0; index < head_.choices; ++index) {
      std::string chunk = open_chunk(index);
      append_first(chunk);
      close_chunk(out, std::move(chunk), "");
    }
  }

  void event(ReplyEvents& out, const Answer& answer, const AnswerEvent& event,
             std::span<const AnswerToken> tokens) override {
    std::string chunk = open_chunk(answer.index);
    append_event(chunk, answer, event, tokens);
    close_chunk(out, std::move(chunk), "");
  }

  void finish(ReplyEvents& out, const Answer& answer) override {
    std::string chunk = open_chunk(answer.index);
    append_last(chunk);
    close_chunk(out, std::move(chunk), finish_reason(answer.ending));
  }

  void end(ReplyEvents& out, const TokenUsage& usage) override {
    if (head_.include_usage) {
      std::string chunk = chunk_head_;
      chunk += ",\"choices\":[],\"usage\":";
      append_usage(chunk, usage);
      chunk += '}';
      out.push_back({"", std::move(chunk)});
    }
    out.push_back({"", "[DONE]"});
  }

  void fail(ReplyEvents& out, const ReplyError& error) override {
    out.push_back({"", openai_error_body(error)});
  }

 protected:
  virtual void append_answer(std::string& out, const Answer& answer) = 0;
  virtual void append_first(std::string& out) = 0;
  virtual void append_event(std::string& out, const Answer& answer, const AnswerEvent& event,
                            std::span<const AnswerToken> tokens) = 0;
  virtual void append_last(std::string& out) = 0;

  const ReplyHead head_;
  const std::shared_ptr<const Vocab> vocab_;

 private:
  std::string open_chunk(int32_t index) const {
    std::string out = chunk_head_;
    fmt::format_to(std::back_inserter(out), ",\"choices\":[{{\"index\":{},", index);
    return out;
  }
  // `reason` empty: null.
  void close_chunk(ReplyEvents& out, std::string chunk, std::string_view reason) {
    chunk += ",\"finish_reason\":";
    chunk += reason.empty() ? "null" : fmt::format("\"{}\"", reason);
    chunk += "}]";
    if (head_.include_usage) chunk += ",\"usage\":null";
    if (!warned_) append_warnings(chunk, head_.warnings);
    warned_ = true;
    chunk += '}';
    out.push_back({"", std::move(chunk)});
  }

  const std::string whole_head_;
  const std::string chunk_head_;
  bool warned_ = false;
};

class ChatWriter final : public Writer {
 public:
  ChatWriter(ReplyHead head, std::shared_ptr<const Vocab> vocab)
      : Writer(std::move(head), std::move(vocab), "chat.completion", "chat.completion.chunk") {}

 private:
  using Kind = AnswerEvent::Kind;

  void append_first(std::string& out) override {
    out += R"("delta":{"role":"assistant","content":)";
    out += head_.begins_with_reasoning ? "null" : "\"\"";
    if (head_.thinking) {
      out += ",\"reasoning_content\":";
      out += head_.begins_with_reasoning ? "\"\"" : "null";
    }
    out += R"(,"refusal":null},"logprobs":null)";
  }

  void append_event(std::string& out, const Answer& answer, const AnswerEvent& event,
                    std::span<const AnswerToken> tokens) override {
    out += "\"delta\":{";
    const bool reasoning = event.kind == Kind::kReasoning;
    if (event.kind == Kind::kCall || event.kind == Kind::kArguments) {
      append_call_event(out, answer, event);
    } else if (reasoning) {
      out += "\"content\":null,\"reasoning_content\":";
      append_json_string(out, event.text);
    } else {
      out += "\"content\":";
      append_json_string(out, event.text);
      if (head_.thinking) out += ",\"reasoning_content\":null";
    }
    out += "},\"logprobs\":";
    const std::span<const AnswerToken> none;
    append_logprobs(out, reasoning ? none : tokens, reasoning ? tokens : none);
  }

  static void append_call_event(std::string& out, const Answer& answer, const AnswerEvent& event) {
    fmt::format_to(std::back_inserter(out), "\"tool_calls\":[{{\"index\":{},",
                   answer.call_ids.size() - 1);
    if (event.kind == Kind::kCall) {
      append_call(out, answer.call_ids.back(), event.text, "");
    } else {
      out += "\"function\":{\"arguments\":";
      append_json_string(out, event.text);
      out += '}';
    }
    out += "}]";
  }

  // Without the braces around it.
  static void append_call(std::string& out, std::string_view id, std::string_view name,
                          std::string_view arguments) {
    out += "\"id\":";
    append_json_string(out, id);
    out += ",\"type\":\"function\",\"function\":{\"name\":";
    append_json_string(out, name);
    out += ",\"arguments\":";
    append_json_string(out, arguments);
    out += '}';
  }

  static void append_calls(std::string& out, const Answer& answer) {
    size_t calls = 0;
    for (size_t i = 0; i < answer.events.size(); ++i) {
      if (answer.events[i].kind != Kind::kCall) continue;
      const bool argued = i + 1 < answer.events.size() &&
                          answer.events[i + 1].kind == Kind::kArguments;
      out += calls == 0 ? ",\"tool_calls\":[{" : ",{";
      append_call(out, answer.call_ids[calls++], answer.events[i].text,
                  argued ? answer.events[i + 1].text : "");
      out += '}';
    }
    if (calls > 0) out += ']';
  }

  void append_last(std::string& out) override { out += R"("delta":{},"logprobs":null)"; }

  void append_answer(std::string& out, const Answer& answer) override {
    fmt::format_to(std::back_inserter(out),
                   "{{\"index\":{},\"message\":{{\"role\":\"assistant\",\"content\":",
                   answer.index);
    const std::string text = answer.text_of(Kind::kContent);
    if (text.empty() && !answer.call_ids.empty()) {
      out += "null";
    } else {
      append_json_string(out, text);
    }
    const std::string reasoning = answer.text_of(Kind::kReasoning);
    if (head_.begins_with_reasoning || !reasoning.empty()) {
      out += ",\"reasoning_content\":";
      append_json_string(out, reasoning);
    }
    out += ",\"refusal\":null";
    append_calls(out, answer);
    out += "},\"logprobs\":";
    append_logprobs(out, answer.tokens, answer.reasoning_tokens);
    fmt::format_to(std::back_inserter(out), ",\"finish_reason\":\"{}\"}}",
                   finish_reason(answer.ending));
  }

  void append_logprobs(std::string& out, std::span<const AnswerToken> tokens,
                       std::span<const AnswerToken> reasoning) const {
    if (!head_.logprobs) {
      out += "null";
      return;
    }
    out += "{\"content\":";
    append_logprob_entries(out, tokens, *vocab_);
    out += ",\"refusal\":null";
    if (!reasoning.empty()) {
      out += ",\"reasoning_content\":";
      append_logprob_entries(out, reasoning, *vocab_);
    }
    out += '}';
  }
};

class CompletionsWriter final : public Writer {
 public:
  CompletionsWriter(ReplyHead head, std::shared_ptr<const Vocab> vocab)
      : Writer(std::move(head), std::move(vocab), "text_completion", "text_completion") {}

 private:
  void append_first(std::string& out) override { append_text(out, "", {}); }

  void append_event(std::string& out, const Answer&, const AnswerEvent& event,
                    std::span<const AnswerToken> tokens) override {
    append_text(out, event.text, tokens);
  }

  void append_last(std::string& out) override { append_text(out, "", {}); }

  void append_answer(std::string& out, const Answer& answer) override {
    fmt::format_to(std::back_inserter(out), "{{\"index\":{},", answer.index);
    append_text(out, answer.text_of(AnswerEvent::Kind::kContent), answer.tokens);
    fmt::format_to(std::back_inserter(out), ",\"finish_reason\":\"{}\"}}",
                   finish_reason(answer.ending));
  }

  void append_text(std::string& out, std::string_view text,
                   std::span<const AnswerToken> tokens) const {
    out += "\"text\":";
    append_json_string(out, text);
    out += ",\"logprobs\":";
    append_logprobs(out, tokens);
  }

  void append_logprobs(std::string& out, std::span<const AnswerToken> tokens) const {
    if (!head_.logprobs || tokens.empty()) {
      out += "null";
      return;
    }
    std::string names;
    std::string logprobs;
    std::string tops;
    std::string offsets;
    for (const AnswerToken& token : tokens) {
      const std::string_view comma = names.empty() ? "" : ",";
      names += comma;
      append_json_string(names, readable_token(bytes_of(*vocab_, token.token)));
      logprobs += comma;
      append_logprob(logprobs, token.logprob);
      tops += comma;
      append_top(tops, token);
      fmt::format_to(std::back_inserter(offsets), "{}{}", comma, token.text_offset);
    }
    out += fmt::format(
        R"({{"tokens":[{}],"token_logprobs":[{}],"top_logprobs":{},"text_offset":[{}]}})", names,
        logprobs, head_.top_logprobs > 0 ? fmt::format("[{}]", tops) : "null", offsets);
  }

  // An object of text to log-probability: the alternatives, and the chosen token if it is none of
  // them. Two tokens of the same bytes stay apart by their ids.
  void append_top(std::string& out, const AnswerToken& token) const {
    std::set<std::string> names;
    bool chosen = false;
    out += '{';
    const auto add = [&](TokenId id, float logprob) {
      std::string name = readable_token(bytes_of(*vocab_, id));
      if (!names.insert(name).second) {
        name = fmt::format("token_id:{}", id);
        names.insert(name);
      }
      if (out.back() != '{') out += ',';
      append_json_string(out, name);
      out += ':';
      append_logprob(out, logprob);
      chosen |= id == token.token;
    };
    for (const TokenLogprob& one : token.top) add(one.token, one.logprob);
    if (!chosen) add(token.token, token.logprob);
    out += '}';
  }
};

}  // namespace

std::unique_ptr<ReplyWriter> make_chat_writer(ReplyHead head, std::shared_ptr<const Vocab> vocab) {
  return std::make_unique<ChatWriter>(std::move(head), std::move(vocab));
}

std::unique_ptr<ReplyWriter> make_completions_writer(ReplyHead head,
                                                     std::shared_ptr<const Vocab> vocab) {
  return std::make_unique<CompletionsWriter>(std::move(head), std::move(vocab));
}

std::string openai_error_body(const ReplyError& error) {
  const auto text_or_null = [](std::string& out, std::string_view text) {
    if (text.empty()) {
      out += "null";
    } else {
      append_json_string(out, text);
    }
  };
  std::string out = "{\"error\":{\"message\":";
  append_json_string(out, error.message);
  out += ",\"type\":";
  append_json_string(out, error.type);
  out += ",\"param\":";
  text_or_null(out, error.param);
  out += ",\"code\":";
  text_or_null(out, error.code);
  out += "}}";
  return out;
}

void append_warnings(std::string& out, const std::vector<std::string>& warnings) {
  if (warnings.empty()) return;
  out += ",\"warnings\":[";
  for (size_t i = 0; i < warnings.size(); ++i) {
    if (i > 0) out += ',';
    append_json_string(out, warnings[i]);
  }
  out += ']';
}

std::string readable_token(std::string_view bytes) {
  if (valid_utf8_prefix(bytes) == bytes.size()) return std::string(bytes);
  std::string out = "bytes:";
  for (const char c : bytes) {
    fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<uint8_t>(c));
  }
  return out;
}

}  // namespace lineshaft::recipe
