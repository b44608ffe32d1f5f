// At stake: clients of every dialect get reasoning, calls and text in their own events, streamed or
// whole the same, and failures in their own shape. Field reports P087 to P096, P101, P120.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "api/test_rig.h"

namespace lineshaft::api {
namespace {

constexpr std::string_view kCalls =
    "Let me see.\n\n<\uff5cDSML\uff5ctool_calls>\n<\uff5cDSML\uff5cinvoke name=\"get\">\n"
    "<\uff5cDSML\uff5cparameter name=\"city\" string=\"true\">Ac\"cra</\uff5cDSML\uff5cparameter>\n"
    "<\uff5cDSML\uff5cparameter name=\"days\" string=\"false\">3</\uff5cDSML\uff5cparameter>\n"
    "</\uff5cDSML\uff5cinvoke>\n<\uff5cDSML\uff5cinvoke name=\"put\">\n</\uff5cDSML\uff5cinvoke>\n"
    "</\uff5cDSML\uff5ctool_calls>";
constexpr std::string_view kOpenAiTools =
    R"("tools":[{"type":"function","function":{"name":"get","parameters":{"type":"object"}}}])";
constexpr std::string_view kMessagesTools =
    R"("tools":[{"name":"get","input_schema":{"type":"object"}}])";
constexpr std::string_view kResponsesTools =
    R"("tools":[{"type":"function","name":"get","parameters":{"type":"object"}}])";

Script says_tokens(std::string_view text) {
  Script script;
  script.tokens = dsml_tokens(text);
  script.cached_tokens = 2;
  return script;
}

struct Event {
  std::string name;
  Json data;
};

// The events of a stream, names and data; comments left out.
std::vector<Event> named_events(const std::string& body) {
  std::vector<Event> out;
  for (size_t at = 0; at < body.size();) {
    const size_t end = body.find("\n\n", at);
    std::string event = body.substr(at, end - at);
    at = end == std::string::npos ? body.size() : end + 2;
    if (event.starts_with(":")) continue;
    Event one;
    if (event.starts_with("event: ")) {
      const size_t line = event.find('\n');
      one.name = event.substr(7, line - 7);
      event.erase(0, line + 1);
    }
    EXPECT_TRUE(event.starts_with("data: ")) << event;
    const auto json = parse_json(event.substr(6));
    EXPECT_TRUE(json.ok()) << event;
    if (json.ok()) one.data = *json;
    out.push_back(std::move(one));
  }
  return out;
}

class Dialects : public testing::Test {
 protected:
  Dialects() : rig_([this](const Request&) { return script_; }, test_config(), dsml_tokenizer(),
                    true) {}

  net::TestReply messages(std::string_view fields, std::string_view headers = "") {
    return rig_.call("POST", "/v1/messages",
                     fmt::format(R"({{"model":"test-model","max_tokens":500,"messages":)"
                                 R"([{{"role":"user","content":"hi"}}]{}}})",
                                 ApiRig::with_comma(fields)),
                     headers);
  }
  net::TestReply responses(std::string_view fields, std::string_view headers = "") {
    return rig_.call("POST", "/v1/responses",
                     fmt::format(R"({{"model":"test-model"{}}})", ApiRig::with_comma(fields)),
                     headers);
  }
  std::string last_prompt() const {
    return rig_.tokenizer->decode(rig_.sink.last_request()->prompt);
  }

  Script script_;
  ApiRig rig_;
};

TEST_F(Dialects, chat_gives_reasoning_text_and_calls) {
  script_ = says_tokens("So: wait.</think>" + std::string(kCalls));
  const Json whole = json_of(rig_.chat(fmt::format(R"({},"reasoning_effort":"high")",
                                                   kOpenAiTools)));
  const Json& choice = whole["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["reasoning_content"], "So: wait.");
  EXPECT_EQ(choice["message"]["content"], "Let me see.");
  const Json& calls = choice["message"]["tool_calls"];
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0]["function"]["name"], "get");
  EXPECT_EQ(calls[0]["function"]["arguments"], R"({"city": "Ac\"cra", "days": 3})");
  EXPECT_EQ(calls[1]["function"]["arguments"], "{}");
  EXPECT_NE(calls[0]["id"], calls[1]["id"]);
  EXPECT_EQ(whole["usage"]["completion_tokens_details"]["reasoning_tokens"], 9);
  EXPECT_EQ(whole["usage"]["prompt_cache_hit_tokens"], 2);
}

TEST_F(Dialects, a_chat_stream_says_what_the_whole_reply_says) {
  script_ = says_tokens("So: wait.</think>" + std::string(kCalls));
  const std::string fields =
      fmt::format(R"({},"reasoning_effort":"high","n":2,"stream":true)", kOpenAiTools);
  std::map<int, Json> messages;
  for (const Event& event : named_events([&] {
         std::string body = rig_.chat(fields).body;
         return body.substr(0, body.find("data: [DONE]"));
       }())) {
    const Json& choice = event.data["choices"][0];
    Json& message = messages[choice["index"].get<int>()];
    if (message.is_null()) message = {{"text", ""}, {"why", ""}, {"calls", Json::array()}};
    const Json& delta = choice["delta"];
    const auto append = [&](const char* key, Json& to) {
      if (!delta.contains(key) || !delta[key].is_string()) return;
      to = to.get<std::string>() + delta[key].get<std::string>();
    };
    append("content", message["text"]);
    append("reasoning_content", message["why"]);
    if (!delta.contains("tool_calls")) continue;
    const Json& call = delta["tool_calls"][0];
    Json& calls = message["calls"];
    if (call.contains("id")) calls.push_back(call);
    ASSERT_EQ(call["index"], calls.size() - 1);
    if (!call.contains("id")) {
      Json& arguments = calls.back()["function"]["arguments"];
      arguments = arguments.get<std::string>() +
                  call["function"]["arguments"].get<std::string>();
    }
  }
  ASSERT_EQ(messages.size(), 2u);
  for (const auto& [index, message] : messages) {
    EXPECT_EQ(message["text"], "Let me see.");
    EXPECT_EQ(message["why"], "So: wait.");
    ASSERT_EQ(message["calls"].size(), 2u);
    EXPECT_EQ(message["calls"][0]["function"]["arguments"],
              R"({"city": "Ac\"cra", "days": 3})");
  }
  EXPECT_NE(messages[0]["calls"][0]["id"], messages[1]["calls"][0]["id"]);
}

TEST_F(Dialects, one_call_at_a_time_when_told) {
  script_ = says_tokens(kCalls);
  script_.end_by_stop = false;
  const auto reply = rig_.chat(fmt::format(R"({},"parallel_tool_calls":false)", kOpenAiTools));
  const Json choice = json_of(reply)["choices"][0];
  EXPECT_EQ(choice["message"]["tool_calls"].size(), 1u);
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(rig_.sink.cancelled_choices(), 1);
}

TEST_F(Dialects, log_probabilities_belong_to_their_text) {
  script_ = says_tokens("ab</think>cd");
  const Json choice = json_of(rig_.chat(
      R"("reasoning_effort":"low","logprobs":true,"top_logprobs":1)"))["choices"][0];
  ASSERT_EQ(choice["logprobs"]["content"].size(), 2u);
  EXPECT_EQ(choice["logprobs"]["content"][0]["token"], "c");
  ASSERT_EQ(choice["logprobs"]["reasoning_content"].size(), 2u);
}

TEST_F(Dialects, messages_have_anthropics_shape) {
  script_ = says_tokens("So.</think>" + std::string(kCalls));
  auto reply = messages(fmt::format(R"({},"thinking":{{"type":"enabled"}})", kMessagesTools));
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_FALSE(reply.headers["request-id"].empty());
  const Json json = json_of(reply);
  EXPECT_TRUE(json["id"].get<std::string>().starts_with("msg_"));
  EXPECT_EQ(json["type"], "message");
  EXPECT_EQ(json["stop_reason"], "tool_use");
  ASSERT_EQ(json["content"].size(), 4u);
  EXPECT_EQ(json["content"][0]["thinking"], "So.");
  EXPECT_EQ(json["content"][1]["text"], "Let me see.");
  EXPECT_EQ(json["content"][2]["input"], Json({{"city", "Ac\"cra"}, {"days", 3}}));
  const auto prompt = static_cast<int64_t>(rig_.sink.last_request()->prompt.size());
  EXPECT_EQ(json["usage"]["input_tokens"], prompt - 2);
  EXPECT_EQ(json["usage"]["cache_read_input_tokens"], 2);
}

TEST_F(Dialects, a_stream_of_messages_opens_and_closes_every_block) {
  script_ = says_tokens("So.</think>" + std::string(kCalls));
  const auto reply =
      messages(fmt::format(R"({},"thinking":{{"type":"enabled"}},"stream":true)", kMessagesTools));
  std::string order;
  int open = -1;
  for (const Event& event : named_events(reply.body)) {
    EXPECT_EQ(event.name, event.data["type"]);
    if (event.name == "content_block_start") {
      EXPECT_EQ(open, -1);
      open = event.data["index"];
      order += event.data["content_block"]["type"].get<std::string>() + " ";
    } else if (event.name == "content_block_delta") {
      EXPECT_EQ(event.data["index"], open);
    } else if (event.name == "content_block_stop") {
      EXPECT_EQ(event.data["index"], open);
      open = -1;
    } else {
      order += event.name + " ";
    }
  }
  EXPECT_EQ(order,
            "message_start thinking ping text tool_use tool_use message_delta message_stop ");
}

TEST_F(Dialects, a_stop_string_is_told_by_messages) {
  script_ = says_tokens("one two three");
  const Json json = json_of(messages(R"("stop_sequences":["x","two"])"));
  EXPECT_EQ(json["stop_reason"], "stop_sequence");
  EXPECT_EQ(json["stop_sequence"], "two");
  EXPECT_EQ(json["content"][0]["text"], "one ");
}

TEST_F(Dialects, failures_have_the_shape_of_their_dialect) {
  script_ = says_tokens("abc");
  auto wrong = messages(R"("temperature":9)");
  EXPECT_EQ(wrong.status, 400);
  const Json error = json_of(wrong);
  EXPECT_EQ(error["type"], "error");
  EXPECT_EQ(error["error"]["type"], "invalid_request_error");
  EXPECT_EQ(error["request_id"], wrong.headers["request-id"]);
  script_.fail_after = 1;
  const auto events = named_events(messages(R"("stream":true)").body);
  EXPECT_EQ(events.back().name, "error");
  EXPECT_EQ(events.back().data["error"]["type"], "overloaded_error");
  EXPECT_EQ(messages("").status, 529);
  const auto failed = named_events(responses(R"("input":"hi","stream":true)").body);
  EXPECT_EQ(failed.back().name, "response.failed");
  EXPECT_EQ(failed.back().data["response"]["error"]["code"], "server_error");
  script_.submit_error = resource_exhausted("the inbox is full");
  auto full = messages("");
  EXPECT_EQ(full.status, 429);
  EXPECT_EQ(json_of(full)["error"]["type"], "rate_limit_error");
  EXPECT_EQ(json_of(rig_.call("GET", "/v1/messages/none"))["type"], "error");
}

TEST_F(Dialects, pings_keep_a_silent_stream_of_messages_alive) {
  script_ = says_tokens("x");
  script_.first_delay = std::chrono::milliseconds(700);
  const auto events = named_events(messages(R"("stream":true)").body);
  int pings = 0;
  for (const Event& event : events) pings += event.name == "ping";
  EXPECT_GE(pings, 3);
}

TEST_F(Dialects, responses_have_openais_events_in_order) {
  script_ = says_tokens("So.</think>" + std::string(kCalls));
  const auto reply = responses(
      fmt::format(R"("input":"hi",{},"reasoning":{{"effort":"high"}},"stream":true)",
                  kResponsesTools));
  const auto events = named_events(reply.body);
  ASSERT_GT(events.size(), 10u);
  EXPECT_EQ(events.front().name, "response.created");
  EXPECT_EQ(events.back().name, "response.completed");
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].data["sequence_number"], i);
    EXPECT_EQ(events[i].name, events[i].data["type"]);
  }
  const Json& output = events.back().data["response"]["output"];
  ASSERT_EQ(output.size(), 4u);
  EXPECT_EQ(output[0]["type"], "reasoning");
  EXPECT_EQ(output[1]["content"][0]["text"], "Let me see.");
  EXPECT_EQ(output[2]["arguments"], R"({"city": "Ac\"cra", "days": 3})");
  const Json& usage = events.back().data["response"]["usage"];
  EXPECT_EQ(usage["input_tokens_details"]["cached_tokens"], 2);
  EXPECT_EQ(usage["output_tokens_details"]["reasoning_tokens"], 3);
}

TEST_F(Dialects, a_stored_response_goes_on_is_read_and_deleted) {
  for (const std::string stream : {"false", "true"}) {
    script_ = says_tokens("blue");
    const auto first = responses(fmt::format(
        R"("input":"colour?","metadata":{{"a":"b"}},"stream":{})", stream));
    std::string id;
    if (stream == "true") {
      id = named_events(first.body).back().data["response"]["id"];
    } else {
      id = json_of(first)["id"];
      EXPECT_FALSE(json_of(first).contains("warnings")) << first.body;
    }
    const Json read = json_of(rig_.call("GET", "/v1/responses/" + id));
    EXPECT_EQ(read["output"][0]["content"][0]["text"], "blue");
    EXPECT_EQ(read["metadata"]["a"], "b");
    const Json next = json_of(responses(
        fmt::format(R"("input":"sure?","previous_response_id":"{}","store":false)", id)));
    EXPECT_EQ(next["previous_response_id"], id);
    EXPECT_EQ(last_prompt(),
              "<|im_start|>system\ndefault<|im_end|>\n<|im_start|>user\ncolour?<|im_end|>\n"
              "<|im_start|>assistant\nblue<|im_end|>\n<|im_start|>user\nsure?<|im_end|>\n"
              "<|im_start|>assistant\n");
    EXPECT_EQ(rig_.call("GET", "/v1/responses/" + next["id"].get<std::string>()).status, 404);
    const Json items = json_of(rig_.call("GET", "/v1/responses/" + id + "/input_items"));
    EXPECT_EQ(items["data"][0]["content"][0]["text"], "colour?");
    EXPECT_EQ(items["has_more"], false);
    EXPECT_EQ(rig_.call("POST", "/v1/responses/" + id + "/cancel", "{}").status, 400);
    EXPECT_EQ(json_of(rig_.call("DELETE", "/v1/responses/" + id))["deleted"], true);
    EXPECT_EQ(rig_.call("GET", "/v1/responses/" + id).status, 404);
    const auto gone = responses(fmt::format(R"("input":"x","previous_response_id":"{}")", id));
    EXPECT_EQ(gone.status, 404);
    EXPECT_EQ(json_of(gone)["error"]["param"], "previous_response_id");
  }
}

TEST_F(Dialects, the_input_of_a_response_is_listed_in_pages) {
  script_ = says_tokens("x");
  std::string input;
  for (int i = 0; i < 5; ++i) {
    input += fmt::format(R"({}{{"role":"user","content":"m{}"}})", i > 0 ? "," : "", i);
  }
  const std::string id = json_of(responses(fmt::format(R"("input":[{}])", input)))["id"];
  const auto page = [&](const std::string& query) {
    std::string out;
    const Json list = json_of(rig_.call("GET", "/v1/responses/" + id + "/input_items" + query));
    for (const Json& item : list["data"]) out += item["content"][0]["text"].get<std::string>();
    return out + (list["has_more"] == true ? "+" : "");
  };
  EXPECT_EQ(page(""), "m4m3m2m1m0");
  EXPECT_EQ(page("?order=asc&limit=2"), "m0m1+");
  EXPECT_EQ(page("?limit=3&order=asc&after=item_" + id + "_1"), "m2m3m4");
  EXPECT_EQ(rig_.call("GET", "/v1/responses/" + id + "/input_items?limit=0").status, 400);
}

TEST_F(Dialects, what_only_a_constraint_could_promise_is_refused_by_its_field) {
  const std::string openai = std::string(kOpenAiTools);
  const std::string format = R"("response_format":{"type":"json_schema","json_schema":)"
                             R"({"name":"a","schema":{"type":"object"}}})";
  const std::pair<net::TestReply, const char*> cases[] = {
      {rig_.chat(format), "response_format"},
      {rig_.chat(openai + R"(,"tool_choice":"required")"), "tool_choice"},
      {rig_.chat(openai +
                 R"(,"tool_choice":{"type":"function","function":{"name":"get"}})"),
       "tool_choice"},
      {rig_.chat(R"("tools":[{"type":"function","function":{"name":"f","strict":true}}])"),
       "tools[0].function.strict"},
      {responses(R"("input":"json","text":{"format":{"type":"json_object"}})"), "text.format"},
  };
  for (const auto& [reply, field] : cases) {
    EXPECT_EQ(reply.status, 400) << reply.body;
    EXPECT_EQ(json_of(reply)["error"]["param"], field) << reply.body;
  }
  const auto any = messages(fmt::format(R"({},"tool_choice":{{"type":"any"}})", kMessagesTools));
  EXPECT_EQ(any.status, 400);
  EXPECT_NE(any.body.find("tool_choice"), std::string::npos);
}

TEST_F(Dialects, prompts_are_counted_as_they_would_be_sent) {
  script_ = says_tokens("x");
  messages("");
  const auto sent = rig_.sink.last_request()->prompt.size();
  const Json counted = json_of(
      rig_.call("POST", "/v1/messages/count_tokens",
                R"({"model":"test-model","messages":[{"role":"user","content":"hi"}]})"));
  EXPECT_EQ(counted, Json({{"input_tokens", sent}}));
  EXPECT_EQ(json_of(rig_.call("POST", "/v1/responses/input_tokens",
                              R"({"model":"test-model","input":"hi"})"))["input_tokens"],
            sent);
  EXPECT_EQ(rig_.sink.submitted(), 1);
}

TEST_F(Dialects, text_becomes_tokens_and_back) {
  const Json plain = json_of(rig_.call("POST", "/tokenize", R"({"content":"a<|im_end|>"})"));
  EXPECT_EQ(plain["tokens"].size(), 11u);
  const Json special = json_of(rig_.call(
      "POST", "/tokenize", R"({"content":"a<|im_end|>","parse_special":true,"with_pieces":true})"));
  ASSERT_EQ(special["tokens"].size(), 2u);
  EXPECT_EQ(special["tokens"][1]["piece"], "<|im_end|>");
  EXPECT_EQ(json_of(rig_.call("POST", "/detokenize", R"({"tokens":[97,98]})"))["content"], "ab");
  for (const char* body :
       {R"({"tokens":[-1]})", R"({"tokens":[264]})", R"({"tokens":"a"})", "{}"}) {
    EXPECT_EQ(rig_.call("POST", "/detokenize", body).status, 400) << body;
  }
}

TEST_F(Dialects, models_are_listed_in_both_shapes) {
  const Json openai = json_of(rig_.call("GET", "/v1/models"));
  EXPECT_EQ(openai["object"], "list");
  const Json anthropic =
      json_of(rig_.call("GET", "/v1/models", "", "anthropic-version: 2023-06-01\r\n"));
  EXPECT_EQ(anthropic["data"][0]["type"], "model");
  EXPECT_EQ(anthropic["has_more"], false);
  const Json one =
      json_of(rig_.call("GET", "/v1/models/test-model", "", "anthropic-version: 2023-06-01\r\n"));
  EXPECT_EQ(one["display_name"], "test-model");
}

}  // namespace
}  // namespace lineshaft::api
