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

void append_usage(std::string& out, const Usage& usage) {
  fmt::format_to(std::back_inserter(out),
                 R"({{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},)"
                 R"("prompt_tokens_details":{{"cached_tokens":{}}},)"
                 R"("completion_tokens_details":{{"reasoning_tokens":0}},)"
                 R"("prompt_cache_hit_tokens":{},"prompt_cache_miss_tokens":{}}})",
                 usage.prompt_tokens, usage.generated_tokens,
                 usage.prompt_tokens + usage.generated_tokens, usage.cached_tokens,
                 usage.cached_tokens, usage.prompt_tokens - usage.cached_tokens);
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

// The parts that both dialects have in common; what a choice looks like differs.
class Writer : public ReplyWriter {
 public:
  Writer(ReplyHead head, std::shared_ptr<const Vocab> vocab, std::string_view whole_object,
         std::string_view chunk_object)
      : head_(std::move(head)),
        vocab_(std::move(vocab)),
        whole_head_(object_head(head_, whole_object)),
        chunk_head_(object_head(head_, chunk_object)) {}

  void whole(std::string& out, std::span<const Answer> answers, const Usage& usage) override {
    out += whole_head_;
    out += ",\"choices\":[";
    for (size_t i = 0; i < answers.size(); ++i) {
      if (i > 0) out += ',';
      append_answer(out, answers[i]);
    }
    out += "],\"usage\":";
    append_usage(out, usage);
    append_warnings(out, head_.warnings);
    out += '}';
  }

  void usage(std::string& out, const Usage& usage) override {
    out += chunk_head_;
    out += ",\"choices\":[],\"usage\":";
    append_usage(out, usage);
    out += '}';
  }

 protected:
  virtual void append_answer(std::string& out, const Answer& answer) = 0;

  void open_chunk(std::string& out, int32_t index) const {
    out += chunk_head_;
    fmt::format_to(std::back_inserter(out), ",\"choices\":[{{\"index\":{},", index);
  }
  // `reason` empty: null.
  void close_chunk(std::string& out, std::string_view reason) {
    out += ",\"finish_reason\":";
    out += reason.empty() ? "null" : fmt::format("\"{}\"", reason);
    out += "}]";
    if (head_.include_usage) out += ",\"usage\":null";
    if (!warned_) append_warnings(out, head_.warnings);
    warned_ = true;
    out += '}';
  }

  const ReplyHead head_;
  const std::shared_ptr<const Vocab> vocab_;

 private:
  const std::string whole_head_;
  const std::string chunk_head_;
  bool warned_ = false;
};

class ChatWriter final : public Writer {
 public:
  ChatWriter(ReplyHead head, std::shared_ptr<const Vocab> vocab)
      : Writer(std::move(head), std::move(vocab), "chat.completion", "chat.completion.chunk") {}

  void begin(std::string& out, int32_t index) override {
    open_chunk(out, index);
    out += R"("delta":{"role":"assistant","content":"","refusal":null},"logprobs":null)";
    close_chunk(out, "");
  }

  void delta(std::string& out, int32_t index, std::string_view text,
             std::span<const AnswerToken> tokens) override {
    open_chunk(out, index);
    out += "\"delta\":{\"content\":";
    append_json_string(out, text);
    out += "},\"logprobs\":";
    append_logprobs(out, tokens);
    close_chunk(out, "");
  }

  void finish(std::string& out, int32_t index, std::string_view reason) override {
    open_chunk(out, index);
    out += R"("delta":{},"logprobs":null)";
    close_chunk(out, reason);
  }

 private:
  void append_answer(std::string& out, const Answer& answer) override {
    fmt::format_to(std::back_inserter(out),
                   "{{\"index\":{},\"message\":{{\"role\":\"assistant\",\"content\":",
                   answer.index);
    append_json_string(out, answer.text);
    out += ",\"refusal\":null},\"logprobs\":";
    append_logprobs(out, answer.tokens);
    fmt::format_to(std::back_inserter(out), ",\"finish_reason\":\"{}\"}}", answer.finish_reason);
  }

  void append_logprobs(std::string& out, std::span<const AnswerToken> tokens) const {
    if (!head_.logprobs) {
      out += "null";
      return;
    }
    out += "{\"content\":[";
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0) out += ',';
      append_entry(out, tokens[i].token, tokens[i].logprob);
      out += ",\"top_logprobs\":[";
      for (size_t k = 0; k < tokens[i].top.size(); ++k) {
        if (k > 0) out += ',';
        append_entry(out, tokens[i].top[k].token, tokens[i].top[k].logprob);
        out += '}';
      }
      out += "]}";
    }
    out += "],\"refusal\":null}";
  }

  // {"token":...,"logprob":...,"bytes":[...] without the closing brace.
  void append_entry(std::string& out, TokenId token, float logprob) const {
    const std::string_view bytes = bytes_of(*vocab_, token);
    out += "{\"token\":";
    append_json_string(out, readable_token(bytes));
    out += ",\"logprob\":";
    append_logprob(out, logprob);
    out += ",\"bytes\":";
    // A control token is no part of the text, so it has no bytes there.
    if (is_control(*vocab_, token)) {
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
};

class CompletionsWriter final : public Writer {
 public:
  CompletionsWriter(ReplyHead head, std::shared_ptr<const Vocab> vocab)
      : Writer(std::move(head), std::move(vocab), "text_completion", "text_completion") {}

  void begin(std::string& out, int32_t index) override { delta(out, index, "", {}); }

  void delta(std::string& out, int32_t index, std::string_view text,
             std::span<const AnswerToken> tokens) override {
    open_chunk(out, index);
    append_text(out, text, tokens);
    close_chunk(out, "");
  }

  void finish(std::string& out, int32_t index, std::string_view reason) override {
    open_chunk(out, index);
    append_text(out, "", {});
    close_chunk(out, reason);
  }

 private:
  void append_answer(std::string& out, const Answer& answer) override {
    fmt::format_to(std::back_inserter(out), "{{\"index\":{},", answer.index);
    append_text(out, answer.text, answer.tokens);
    fmt::format_to(std::back_inserter(out), ",\"finish_reason\":\"{}\"}}", answer.finish_reason);
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

std::string openai_error_body(std::string_view message, std::string_view type,
                              std::string_view param, std::string_view code) {
  const auto text_or_null = [](std::string& out, std::string_view text) {
    if (text.empty()) {
      out += "null";
    } else {
      append_json_string(out, text);
    }
  };
  std::string out = "{\"error\":{\"message\":";
  append_json_string(out, message);
  out += ",\"type\":";
  append_json_string(out, type);
  out += ",\"param\":";
  text_or_null(out, param);
  out += ",\"code\":";
  text_or_null(out, code);
  out += "}}";
  return out;
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
