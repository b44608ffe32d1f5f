// At stake: routes, limits and errors that scripts rely on; work for clients that are gone; one
// client that spoils it for others. Field reports P037, P038, P040, P069 to P072, P075, P077, P079,
// P087, P096, P140.
#include "api/server.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "api/test_rig.h"

namespace lineshaft::api {
namespace {

using std::chrono::milliseconds;

Script says(std::string_view text) {
  Script script;
  script.tokens = text_tokens(text);
  return script;
}

Script endless() {
  Script script;
  script.tokens = text_tokens("word ");
  script.end_by_stop = false;
  script.token_time = std::chrono::milliseconds(1);
  return script;
}

bool eventually(const std::function<bool()>& true_now) {
  for (int i = 0; i < 2500 && !true_now(); ++i) std::this_thread::sleep_for(milliseconds(2));
  return true_now();
}

TEST(Routes, answer_methods_and_unknown_paths) {
  ApiRig rig([](const Request&) { return says("x"); });
  const auto models = json_of(rig.call("GET", "/v1/models"));
  EXPECT_EQ(models["object"], "list");
  EXPECT_EQ(models["data"][0]["id"], "test-model");
  EXPECT_EQ(models["data"][0]["max_model_len"], ApiRig::kContext);
  EXPECT_EQ(json_of(rig.call("GET", "/v1/models/test-model"))["object"], "model");
  EXPECT_EQ(rig.call("GET", "/v1/models/org%2Falias").status, 200);
  EXPECT_EQ(rig.call("GET", "/v1/models/org/alias").status, 200);
  auto missing = rig.call("GET", "/v1/models/nope");
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(json_of(missing)["error"]["code"], "model_not_found");
  EXPECT_EQ(rig.call("GET", "/health?x=1").status, 200);
  EXPECT_EQ(rig.call("GET", "/ready").status, 200);
  EXPECT_EQ(json_of(rig.call("GET", "/version"))["version"], "0.1.0");
  EXPECT_EQ(rig.call("HEAD", "/v1/models").status, 200);
  auto wrong = rig.call("GET", "/v1/chat/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers["allow"], "POST, OPTIONS");
  EXPECT_EQ(rig.call("DELETE", "/v1/models").status, 405);
  EXPECT_EQ(rig.call("GET", "/v1/nothing").status, 404);
  EXPECT_EQ(json_of(rig.call("GET", "/"))["error"]["code"], "not_found");
  auto options = rig.call("OPTIONS", "/v1/models");
  EXPECT_EQ(options.status, 204);
  EXPECT_EQ(options.headers["allow"], "GET, HEAD, OPTIONS");
}

TEST(Bodies, that_are_not_requests_are_400s_that_say_why) {
  ApiRig rig([](const Request&) { return says("x"); });
  const std::pair<std::string, std::string> cases[] = {
      {"", "invalid JSON at line 1"},
      {"{\"model\":\n nope}", "line 2"},
      {"[]", "must be a JSON object"},
      {"{\"model\":\"test-model\",\"messages\":[{\"role\":\"user\",\"content\":\"\xc4\xe3\"}]}",
       "not UTF-8"},
      {R"({"model":"test-model","messages":[{"role":"user","content":"\ud83d"}]})",
       "invalid JSON"},
      {std::string(100'000, '['), "nested deeper"},
      {R"({"model":"test-model","model":"x"})", "twice"},
      {R"({"model":"test-model","messages":[]})", "at least one message"},
      {R"({"model":"test-model"})", "'messages' is missing"},
      {R"({"messages":[{"role":"user","content":"x"}]})", "'model' is missing"},
  };
  for (const auto& [body, part] : cases) {
    for (const char* path : {"/v1/chat/completions", "/v1/completions"}) {
      const bool completions = std::string(path) == "/v1/completions";
      const auto reply = rig.call("POST", path, body);
      EXPECT_EQ(reply.status, 400) << body.substr(0, 80);
      const auto json = json_of(reply);
      EXPECT_EQ(json["error"]["type"], "invalid_request_error");
      if (completions && part.find("message") != std::string::npos) continue;
      EXPECT_NE(json["error"]["message"].get<std::string>().find(part), std::string::npos)
          << reply.body;
    }
  }
  EXPECT_EQ(rig.sink.submitted(), 0);
}

TEST(Bodies, of_unknown_models_types_and_sizes) {
  ServerConfig config = test_config();
  config.http.body_bytes_max = 1 << 20;
  ApiRig rig([](const Request&) { return says("x"); }, config);
  const auto model =
      rig.call("POST", "/v1/chat/completions",
               R"({"model":"gpt-9\u0000\n","messages":[{"role":"user","content":"x"}]})");
  EXPECT_EQ(model.status, 404);
  EXPECT_EQ(json_of(model)["error"]["code"], "model_not_found");
  EXPECT_EQ(json_of(model)["error"]["param"], "model");
  net::TestClient form(rig.address);
  form.send("POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
            "content-type: application/x-www-form-urlencoded\r\ncontent-length: 2\r\n\r\n{}");
  EXPECT_EQ(form.read_reply().status, 415);
  net::TestClient bare(rig.address);
  bare.send("POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}");
  EXPECT_EQ(bare.read_reply().status, 400);
  EXPECT_EQ(rig.chat(fmt::format(R"("user":"{}")", std::string(2 << 20, 'x'))).status, 413);
  const auto after = rig.chat("");
  EXPECT_EQ(after.status, 200);
}

TEST(Bodies, long_ones_take_the_other_thread_to_the_same_answer) {
  ApiRig rig([](const Request&) { return says("ok"); });
  const std::string filler(100'000, 'x');
  EXPECT_EQ(rig.chat(fmt::format(R"("metadata":{{"a":"{}"}})", filler)).status, 200);
  EXPECT_EQ(rig.complete(fmt::format(R"("prompt":"{}")", filler)).status, 400);
}

TEST(Fields, what_is_ignored_is_said_and_strict_mode_refuses) {
  ApiRig rig([](const Request&) { return says("ok"); });
  const std::string fields = R"("user":"me","no_such_field":[1],"tools":[],"tool_choice":"none",)"
                             R"("response_format":{"type":"text"},"store":null)";
  const auto json = json_of(rig.chat(fields));
  ASSERT_EQ(json["warnings"].size(), 2u) << json.dump();
  EXPECT_EQ(json["warnings"][0], "'user' is ignored: nothing is kept about users");
  EXPECT_EQ(json["warnings"][1], "'no_such_field' is ignored: not a known field");
  const auto stream = rig.chat(fields + R"(,"stream":true)");
  const auto events = events_of(stream.body);
  EXPECT_EQ((*parse_json(events[0]))["warnings"].size(), 2u);
  EXPECT_FALSE((*parse_json(events[1])).contains("warnings"));
  ServerConfig strict = test_config();
  strict.strict_fields = true;
  ApiRig strict_rig([](const Request&) { return says("x"); }, strict);
  const auto refused = strict_rig.chat(R"("no_such_field":1)");
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(json_of(refused)["error"]["param"], "no_such_field");
}

TEST(Disconnect, frees_running_and_queued_requests_at_once) {
  ApiRig rig([](const Request& request) {
    Script script = endless();
    if (request.sampling.max_tokens > 1000) script.first_delay = std::chrono::seconds(60);
    return script;
  });
  std::vector<std::unique_ptr<net::TestClient>> clients;
  for (int i = 0; i < 60; ++i) {
    clients.push_back(std::make_unique<net::TestClient>(rig.address));
    const std::string fields =
        fmt::format(R"("max_tokens":{},"stream":{},"n":{})", i % 2 ? 900 : 1500,
                    i % 3 == 0 ? "true" : "false", 1 + i % 4);
    clients.back()->send(
        ApiRig::http("POST", "/v1/chat/completions", ApiRig::chat_body(fields)));
  }
  ASSERT_TRUE(eventually([&] { return rig.sink.submitted() == 60; }));
  EXPECT_GE(rig.server->live_requests(), 50);
  clients.clear();
  const auto began = std::chrono::steady_clock::now();
  ASSERT_TRUE(eventually([&] { return rig.sink.running() == 0; }));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(1));
  EXPECT_TRUE(eventually([&] { return rig.server->live_requests() == 0; }));
}

TEST(Clients, one_that_never_reads_is_dropped_and_31_others_are_whole) {
  ServerConfig config = test_config();
  config.http.stream_buffer_bytes_max = 128 << 10;
  ApiRig rig([](const Request& request) {
    Script script = endless();
    if (request.sampling.max_tokens < 1000) script.token_time = std::chrono::microseconds(500);
    return script;
  }, config);
  net::TestClient deaf(rig.address, 4096);
  deaf.send(ApiRig::http("POST", "/v1/chat/completions",
                         ApiRig::chat_body(R"("stream":true,"n":16,"logprobs":true,)"
                                           R"("top_logprobs":20,"max_tokens":1900)")));
  std::vector<std::thread> threads;
  std::atomic<int> whole{0};
  for (int i = 0; i < 31; ++i) {
    threads.emplace_back([&] {
      const auto reply = rig.chat(R"("stream":true,"max_tokens":200)");
      whole += reply.complete && reply.body.ends_with("data: [DONE]\n\n");
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(whole, 31);
  EXPECT_TRUE(eventually([&] { return rig.sink.running() == 0; }));
  const std::string dropped = "lineshaft_requests_total{result=\"cancelled\"} 1\n";
  EXPECT_TRUE(eventually([&] {
    return rig.call("GET", "/metrics").body.find(dropped) != std::string::npos;
  }));
}

TEST(Drain, running_streams_end_whole_and_new_requests_are_told_to_retry) {
  ApiRig rig([](const Request&) { return endless(); });
  std::vector<std::unique_ptr<net::TestClient>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<net::TestClient>(rig.address));
    clients.back()->send(ApiRig::http("POST", "/v1/chat/completions",
                                      ApiRig::chat_body(R"("stream":true,"max_tokens":300)")));
  }
  ASSERT_TRUE(eventually([&] { return rig.sink.submitted() == 8; }));
  rig.server->begin_drain();
  auto refused = rig.chat("");
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers["retry-after"], "2");
  EXPECT_EQ(rig.call("GET", "/ready").status, 503);
  EXPECT_EQ(rig.call("GET", "/health").status, 200);
  for (auto& client : clients) {
    const auto reply = client->read_reply();
    EXPECT_TRUE(reply.complete);
    EXPECT_TRUE(reply.body.ends_with("data: [DONE]\n\n"));
  }
  EXPECT_TRUE(eventually([&] { return rig.server->live_requests() == 0; }));
  rig.server->stop(Duration::seconds(1));
}

TEST(Stop, at_once_cuts_what_runs) {
  ApiRig rig([](const Request&) { return endless(); });
  net::TestClient client(rig.address);
  client.send(ApiRig::http("POST", "/v1/chat/completions",
                           ApiRig::chat_body(R"("stream":true,"max_tokens":1900)")));
  ASSERT_TRUE(client.read_until(R"("content":"w")"));
  rig.server->stop();
  EXPECT_FALSE(client.read_reply().complete);
  EXPECT_TRUE(eventually([&] { return rig.sink.running() == 0; }));
}

TEST(Metrics, count_requests_by_their_end_and_print_aliases) {
  ServerConfig config = test_config();
  config.vllm_metric_names = true;
  ApiRig rig([](const Request& request) {
    Script script = says("abc");
    if (request.sampling.n == 2) script.fail_after = 1;
    return script;
  }, config);
  rig.metrics.counter("lineshaft_generated_tokens_total", "of the engine").add(3);
  rig.chat("");
  rig.chat(R"("n":2)");
  rig.chat(R"("temperature":9)");
  auto page = rig.call("GET", "/metrics");
  EXPECT_EQ(page.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
  for (const char* line :
       {"\nlineshaft_requests_total{result=\"ok\"} 1\n", "\nvllm:generation_tokens_total 3\n",
        "\nlineshaft_requests_total{result=\"error\"} 1\n"}) {
    EXPECT_NE(page.body.find(line), std::string::npos) << line << page.body;
  }
}

TEST(RequestIds, go_in_and_out) {
  ApiRig rig([](const Request&) { return says("x"); });
  EXPECT_EQ(rig.chat("", "x-request-id: my-id.7\r\n").headers["x-request-id"], "my-id.7");
  EXPECT_NE(rig.chat("", "x-request-id: bad id\r\n").headers["x-request-id"], "bad id");
}

}  // namespace
}  // namespace lineshaft::api
