// At stake: no body, however wrong, may end the process, hang it or look like our fault. Every
// known field takes every kind of wrong value; all replies are 200 or a 400 that names a field.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "api/test_rig.h"
#include "base/rng.h"

namespace lineshaft::api {
namespace {

Script says_x(const Request&) {
  Script script;
  script.tokens = text_tokens("x");
  return script;
}

const std::vector<std::string> kValues = {
    "null", "true",   "false", "0",    "-1",   "1.5",    "1e308", "9223372036854775808",
    "\"\"", "\"x\"",  "[]",    "{}",   "[[]]", "[null]", "[1.5]", "[\"\",2]",
    "{\"a\":{}}", "[{\"type\":\"text\"}]", "-9223372036854775808", "1e-320"};

// Fields that can't be right with any value of a wrong type; the rest may be.
const std::vector<std::string> kShared = {
    "model", "temperature", "top_p", "n", "max_tokens", "seed", "stop", "stop_token_ids",
    "logit_bias", "ignore_eos", "priority", "stream", "stream_options", "presence_penalty",
    "frequency_penalty", "top_k", "min_p", "repetition_penalty", "repeat_penalty", "logprobs",
    "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
    "prompt_cache_retention", "prompt_cache_options", "cache_prompt", "id_slot",
    "timings_per_token", "skip_special_tokens", "guided_json", "grammar", "min_tokens"};
const std::vector<std::string> kChat = {
    "messages", "max_completion_tokens", "top_logprobs", "tools", "functions", "tool_choice",
    "function_call", "parallel_tool_calls", "response_format", "modalities", "audio",
    "reasoning_effort", "thinking", "chat_template_kwargs", "prediction", "verbosity",
    "moderation", "web_search_options"};
const std::vector<std::string> kMessage = {"role", "content", "name", "tool_calls", "refusal",
                                           "reasoning_content", "function_call", "audio",
                                           "annotations", "prefix", "tool_call_id"};

class Fuzz : public testing::Test {
 protected:
  Fuzz() : rig_(says_x), client_(rig_.address) {}

  void check(const char* path, const std::string& body) {
    client_.send(ApiRig::http("POST", path, body));
    const auto reply = client_.read_reply();
    ASSERT_TRUE(reply.complete) << body;
    const bool known = reply.status == 404 && body.find("\"model\"") != std::string::npos;
    ASSERT_TRUE(reply.status == 200 || reply.status == 400 || known) << reply.status << " " << body;
    if (reply.status != 400) return;
    const Json error = json_of(reply)["error"];
    ASSERT_TRUE(error["message"].is_string()) << body;
    // Anthropic's form has no place for the field but the message.
    if (!std::string_view(path).starts_with("/v1/messages")) {
      ASSERT_TRUE(error["param"].is_string()) << body << reply.body;
    }
    ++refused_;
  }

  static std::string body_of(const std::string& base, const std::string& field,
                             const std::string& value) {
    Json json = *parse_json(base);
    json[field] = *parse_json(value);
    return write_json(json);
  }

  ApiRig rig_;
  net::TestClient client_;
  int refused_ = 0;
};

TEST_F(Fuzz, every_field_of_chat_takes_every_wrong_type) {
  const std::string base = ApiRig::chat_body("");
  for (const auto* fields : {&kShared, &kChat}) {
    for (const std::string& field : *fields) {
      for (const std::string& value : kValues) {
        check("/v1/chat/completions", body_of(base, field, value));
      }
    }
  }
  EXPECT_GT(refused_, 700);
}

TEST_F(Fuzz, every_field_of_completions_takes_every_wrong_type) {
  const std::string base = R"({"model":"test-model","prompt":"x"})";
  for (const std::string& field : kShared) {
    for (const std::string& value : kValues) check("/v1/completions", body_of(base, field, value));
  }
  for (const std::string field : {"prompt", "suffix", "echo", "best_of"}) {
    for (const std::string& value : kValues) check("/v1/completions", body_of(base, field, value));
  }
  EXPECT_GT(refused_, 450);
}

TEST_F(Fuzz, every_field_of_responses_takes_every_wrong_type) {
  const std::string base = R"({"model":"test-model","input":[{"role":"user","content":"x"}]})";
  for (const std::string field :
       {"model", "input", "instructions", "max_output_tokens", "temperature", "top_p",
        "top_logprobs", "stream", "store", "background", "conversation", "prompt", "include",
        "metadata", "previous_response_id", "reasoning", "text", "tools", "tool_choice",
        "parallel_tool_calls", "truncation", "user", "service_tier", "stream_options",
        "prompt_cache_key", "client_metadata", "max_tool_calls", "unheard_of"}) {
    for (const std::string& value : kValues) check("/v1/responses", body_of(base, field, value));
  }
  for (const std::string field : {"type", "role", "content", "call_id", "output", "summary", "id",
                                  "name", "arguments", "status", "encrypted_content"}) {
    for (const char* type : {"message", "reasoning", "function_call", "function_call_output"}) {
      for (const std::string& value : kValues) {
        Json json = *parse_json(base);
        json["input"][0]["type"] = type;
        json["input"][0][field] = *parse_json(value);
        check("/v1/responses", write_json(json));
      }
    }
  }
  EXPECT_GT(refused_, 700);
}

TEST_F(Fuzz, every_field_of_messages_takes_every_wrong_type) {
  const std::string base =
      R"({"model":"test-model","max_tokens":9,"messages":[{"role":"user","content":"x"}]})";
  for (const char* path : {"/v1/messages", "/v1/messages/count_tokens"}) {
    for (const std::string field :
         {"model", "messages", "max_tokens", "system", "temperature", "top_p", "top_k",
          "stop_sequences", "stream", "tools", "tool_choice", "thinking", "output_config",
          "metadata", "service_tier", "container", "context_management", "unheard_of"}) {
      for (const std::string& value : kValues) check(path, body_of(base, field, value));
    }
  }
  for (const char* type : {"text", "image", "document", "thinking", "redacted_thinking",
                           "tool_use", "tool_result", "search_result", "tool_reference"}) {
    for (const std::string field : {"type", "text", "source", "thinking", "signature", "id",
                                    "name", "input", "tool_use_id", "content", "is_error",
                                    "cache_control"}) {
      for (const std::string& value : kValues) {
        Json json = *parse_json(base);
        json["messages"][0]["content"] = Json::array({Json{{"type", type}}});
        json["messages"][0]["content"][0][field] = *parse_json(value);
        check("/v1/messages", write_json(json));
      }
    }
  }
  EXPECT_GT(refused_, 2000);
}

TEST_F(Fuzz, every_field_of_the_text_routes_takes_every_wrong_type) {
  for (const std::string field :
       {"content", "add_special", "parse_special", "with_pieces", "model"}) {
    for (const std::string& value : kValues) {
      check("/tokenize", body_of(R"({"content":"x"})", field, value));
    }
  }
  for (const std::string& value : kValues) {
    check("/detokenize", body_of(R"({"tokens":[1]})", "tokens", value));
  }
  EXPECT_GT(refused_, 80);
}

TEST_F(Fuzz, every_field_of_a_message_takes_every_wrong_type) {
  for (const char* role : {"user", "assistant", "tool", "system"}) {
    for (const std::string& field : kMessage) {
      for (const std::string& value : kValues) {
        Json json = *parse_json(ApiRig::chat_body(""));
        json["messages"][0]["role"] = role;
        json["messages"][0][field] = *parse_json(value);
        check("/v1/chat/completions", write_json(json));
      }
    }
  }
}

TEST_F(Fuzz, numbers_beyond_their_range_are_named) {
  const std::pair<const char*, const char*> cases[] = {
      {"temperature", "2.01"},   {"temperature", "-0.1"},      {"top_p", "0"},
      {"top_p", "1.1"},          {"n", "17"},                  {"n", "0"},
      {"max_tokens", "0"},       {"max_completion_tokens", "-4"}, {"min_p", "1.5"},
      {"top_k", "-2"},           {"presence_penalty", "2.5"},  {"frequency_penalty", "-3"},
      {"top_logprobs", "21"},    {"top_logprobs", "2"},        {"stop", "[\"a\",\"\"]"},
      {"logit_bias", "{\"5\":101}"}, {"logit_bias", "{\"x\":1}"}, {"logit_bias", "{\"261\":1}"},
      {"logit_bias", "{\"05\":1}"},  {"stop_token_ids", "[261]"}, {"repetition_penalty", "0"},
      {"stream_options", "{}"},  {"tools", "[{}]"},            {"tool_choice", "\"required\""},
      {"response_format", "{\"type\":\"json_object\"}"},       {"seed", "1e3"}};
  for (const auto& [field, value] : cases) {
    const auto reply = rig_.chat(fmt::format(R"("{}":{})", field, value));
    EXPECT_EQ(reply.status, 400) << field << value;
    const std::string param = json_of(reply)["error"].value("param", "");
    EXPECT_EQ(param.rfind(field, 0), 0u) << param;
  }
}

TEST_F(Fuzz, broken_bytes_anywhere_in_a_body) {
  const std::string base = ApiRig::chat_body(
      R"("temperature":0.5,"stop":["a"],"logit_bias":{"5":1},"n":2,"stream":false,"user":"me")");
  RngKey key(5);
  for (uint64_t trial = 0; trial < 3000; ++trial) {
    const RngKey draw = key.split(trial);
    std::string body = base;
    for (uint64_t i = 0; i < 1 + draw.below(90, 4); ++i) {
      const size_t at = draw.below(i, body.size());
      switch (draw.below(i + 10, 3)) {
        case 0: body[at] = static_cast<char>(draw.below(i + 20, 256)); break;
        case 1: body.erase(at, 1 + draw.below(i + 30, 9)); break;
        default: body.insert(at, body.substr(draw.below(i + 40, body.size()), 7));
      }
    }
    client_.send(ApiRig::http("POST", "/v1/chat/completions", body));
    const auto reply = client_.read_reply();
    ASSERT_TRUE(reply.status == 200 || reply.status == 400 || reply.status == 404)
        << reply.status << body;
    ASSERT_TRUE(parse_json(reply.body).ok());
  }
}

TEST_F(Fuzz, content_forms) {
  const std::pair<const char*, int> cases[] = {
      {R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}])",
       200},
      {R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}])", 400},
      {R"([{"role":"user","content":null}])", 400},
      {R"([{"role":"user","content":""}])", 200},
      {R"([{"role":"developer","content":"x"}])", 200},
      {R"([{"role":"function","content":"x"}])", 400},
      {R"([{"role":"user","content":"a"},{"role":"user","content":"b"},)"
       R"({"role":"assistant","content":"c"},{"role":"assistant","content":"d"}])", 200},
      {R"([{"role":"assistant","content":"hi","tool_calls":[]}])", 200},
      {R"([{"role":"user","content":"q"},{"role":"assistant","content":null,"tool_calls":)"
       R"([{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},)"
       R"({"role":"tool","tool_call_id":"c1","content":"ok"},{"role":"user","content":"q"}])", 200},
      {R"([{"role":"assistant","content":null}])", 400},
  };
  for (const auto& [messages, status] : cases) {
    const auto reply =
        rig_.call("POST", "/v1/chat/completions",
                  fmt::format(R"({{"model":"test-model","messages":{}}})", messages));
    EXPECT_EQ(reply.status, status) << messages << reply.body;
  }
  const auto image = rig_.call(
      "POST", "/v1/chat/completions",
      R"({"model":"test-model","messages":[{"role":"user","content":[{"type":"text","text":"a"},)"
      R"({"type":"image_url","image_url":{"url":"x"}}]}]})");
  EXPECT_EQ(json_of(image)["error"]["param"], "messages[0].content[1].type");
}

}  // namespace
}  // namespace lineshaft::api
