// ApiRig: a Server over a ScriptedSink on a loopback port, and requests to it. For tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/scripted_sink.h"
#include "api/server.h"
#include "base/json.h"
#include "net/test_client.h"
#include "recipe/encoding/chatml.h"
#include "recipe/model_format.h"
#include "recipe/parser/dsml_parser.h"
#include "recipe/test_tokenizer.h"

namespace lineshaft::api {

inline std::vector<TokenId> text_tokens(std::string_view text) {
  std::vector<TokenId> out;
  for (const char c : text) out.push_back(static_cast<uint8_t>(c));
  return out;
}

// The test tokenizer with the control tokens of DSML.
inline std::shared_ptr<const recipe::Tokenizer> dsml_tokenizer() {
  static const auto tokenizer =
      recipe::test_tokenizer({"<think>", "</think>", "\uff5cDSML\uff5c"});
  return tokenizer;
}

// What a model says, control tokens spelled.
inline std::vector<TokenId> dsml_tokens(std::string_view text) {
  return dsml_tokenizer()->encode(text, recipe::Tokenizer::Mode::kSpecial);
}

inline ServerConfig test_config() {
  ServerConfig config;
  config.http.port = 0;
  config.http.heartbeat_interval = Duration::milliseconds(100);
  config.head_delay_max = Duration::milliseconds(50);
  return config;
}

class ApiRig {
 public:
  static constexpr int32_t kContext = 2048;

  explicit ApiRig(std::function<Script(const Request&)> script,
                  ServerConfig config = test_config())
      : ApiRig(std::move(script), std::move(config), recipe::test_tokenizer(), false) {}

  // `dsml`: a model that reasons and calls tools in DSML, with a prompt in ChatML.
  ApiRig(std::function<Script(const Request&)> script, ServerConfig config,
         std::shared_ptr<const recipe::Tokenizer> tokens, bool dsml)
      : tokenizer(std::move(tokens)), sink(std::move(script)) {
    ModelCard card;
    card.id = "test-model";
    card.aliases = {"org/alias"};
    card.context_tokens = kContext;
    card.system_fingerprint = "fp_test";
    server = std::make_unique<Server>(std::move(config), sink, tokenizer,
                                      format(tokenizer, dsml),
                                      std::move(card), metrics);
    const auto started = server->start();
    EXPECT_TRUE(started.ok()) << started.status();
    address = started.value_or("");
  }
  ~ApiRig() { server->stop(); }

  static recipe::ChatFormat format(const std::shared_ptr<const recipe::Tokenizer>& tokenizer,
                                   bool dsml) {
    recipe::ChatFormat out;
    const auto chatml = std::make_shared<const recipe::ChatMl>(tokenizer, recipe::kTestImStart,
                                                               recipe::kTestImEnd, "default");
    out.encode = [chatml](const recipe::Conversation& c) { return chatml->encode(c); };
    if (!dsml) return out;
    recipe::Abilities& can = out.abilities;
    can.tools = can.reasoning = can.answer_forms = true;
    can.thinks_unless_told = false;
    out.parser = [](const recipe::Conversation& c, std::vector<std::string> stops) {
      return std::make_unique<recipe::DsmlParser>(recipe::parser_options(c, std::move(stops)));
    };
    return out;
  }

  static std::string http(std::string_view method, std::string_view path, std::string_view body,
                          std::string_view headers = "") {
    return fmt::format(
        "{} {} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        "content-length: {}\r\n{}\r\n{}",
        method, path, body.size(), headers, body);
  }

  net::TestReply call(std::string_view method, std::string_view path, std::string_view body = "",
                      std::string_view headers = "") {
    net::TestClient client(address);
    client.send(http(method, path, body, headers));
    return client.read_reply(method == "HEAD");
  }
  net::TestReply chat(std::string_view fields, std::string_view headers = "") {
    return call("POST", "/v1/chat/completions", chat_body(fields), headers);
  }
  net::TestReply complete(std::string_view fields, std::string_view headers = "") {
    return call("POST", "/v1/completions",
                fmt::format(R"({{"model":"test-model"{}}})", with_comma(fields)), headers);
  }
  static std::string with_comma(std::string_view fields) {
    return fields.empty() ? std::string() : "," + std::string(fields);
  }
  static std::string chat_body(std::string_view fields) {
    return fmt::format(
        R"({{"model":"test-model","messages":[{{"role":"user","content":"hi"}}]{}}})",
        with_comma(fields));
  }

  std::shared_ptr<const recipe::Tokenizer> tokenizer;
  Metrics metrics;
  ScriptedSink sink;
  std::string address;
  std::unique_ptr<Server> server;
};

inline Json json_of(const net::TestReply& reply) {
  const auto parsed = parse_json(reply.body);
  EXPECT_TRUE(parsed.ok()) << reply.body;
  return parsed.ok() ? *parsed : Json();
}

// The data of each event of a stream; comments left out.
inline std::vector<std::string> events_of(const std::string& body) {
  std::vector<std::string> out;
  for (size_t at = 0; at < body.size();) {
    const size_t end = body.find("\n\n", at);
    const std::string event = body.substr(at, end - at);
    if (event.starts_with("data: ")) {
      out.push_back(event.substr(6));
    } else {
      EXPECT_TRUE(event.starts_with(":")) << event;
    }
    if (end == std::string::npos) break;
    at = end + 2;
  }
  return out;
}

}  // namespace lineshaft::api
