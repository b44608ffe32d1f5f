// At stake: strangers. Keys guard every route but two, a web page can't use a local server, one
// tenant can't see another's cache or starve it. Field reports P035, P111, P113, P114.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "api/keys.h"
#include "api/test_rig.h"
#include "base/hash.h"

namespace lineshaft::api {
namespace {

Script says(std::string_view text) {
  Script script;
  script.tokens = text_tokens(text);
  return script;
}

constexpr std::string_view kKeyFile = R"(
[[key]]
token = "alpha-secret"
tenant = "a"
concurrent_requests = 2

[[key]]
token = "beta-secret"
tenant = "b"
tokens_per_minute = 200

[[key]]
token = "gamma-secret"
tenant = "a"
)";

std::string write_keys(std::string_view text) {
  const std::string path = testing::TempDir() + "lineshaft_keys_test.toml";
  std::ofstream(path) << text;
  return path;
}

ServerConfig keyed_config() {
  ServerConfig config = test_config();
  config.keys_file = write_keys(kKeyFile);
  return config;
}

constexpr std::string_view kAlpha = "authorization: Bearer alpha-secret\r\n";
constexpr std::string_view kBeta = "authorization: bearer beta-secret\r\n";

TEST(Keys, guard_every_route_but_health_and_ready) {
  ApiRig rig([](const Request&) { return says("x"); }, keyed_config());
  struct Case {
    const char* method;
    const char* path;
    int open;    // without a key
    int keyed;
  };
  const Case cases[] = {
      {"GET", "/health", 200, 200},          {"GET", "/ready", 200, 200},
      {"GET", "/v1/models", 401, 200},       {"GET", "/v1/models/test-model", 401, 200},
      {"GET", "/metrics", 401, 200},         {"GET", "/version", 401, 200},
      {"POST", "/v1/completions", 401, 400}, {"POST", "/v1/chat/completions", 401, 400},
      {"GET", "/no/such/route", 401, 404},   {"DELETE", "/v1/models", 401, 405},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(rig.call(one.method, one.path, "{}").status, one.open) << one.path;
    EXPECT_EQ(rig.call(one.method, one.path, "{}", kAlpha).status, one.keyed) << one.path;
    EXPECT_EQ(rig.call(one.method, one.path, "{}", "authorization: Bearer alpha-secre\r\n").status,
              one.open);
    EXPECT_EQ(rig.call(one.method, one.path, "{}", "authorization: Basic alpha-secret\r\n").status,
              one.open);
  }
  auto refused = rig.chat("");
  EXPECT_EQ(json_of(refused)["error"]["code"], "invalid_api_key");
  EXPECT_EQ(refused.headers["www-authenticate"], "Bearer");
}

TEST(Keys, give_each_tenant_a_cache_of_its_own) {
  ApiRig rig([](const Request&) { return says("x"); }, keyed_config());
  const auto salt_of = [&](std::string_view key) {
    EXPECT_EQ(rig.chat("", key).status, 200);
    return rig.sink.last_request()->cache_salt;
  };
  const auto alpha = salt_of(kAlpha);
  EXPECT_EQ(rig.sink.last_request()->tenant, "a");
  EXPECT_NE(alpha, Hash128{});
  EXPECT_EQ(salt_of("authorization: Bearer gamma-secret\r\n"), alpha);
  EXPECT_NE(salt_of(kBeta), alpha);
  ApiRig open([](const Request&) { return says("x"); });
  open.chat("");
  EXPECT_EQ(open.sink.last_request()->cache_salt, Hash128{});
}

TEST(Keys, limit_concurrent_requests) {
  ApiRig rig([](const Request& request) {
    Script script = says("x");
    if (request.sampling.max_tokens == 9) script.first_delay = std::chrono::seconds(60);
    return script;
  }, keyed_config());
  std::vector<std::unique_ptr<net::TestClient>> clients;
  for (int i = 0; i < 2; ++i) {
    clients.push_back(std::make_unique<net::TestClient>(rig.address));
    clients.back()->send(ApiRig::http("POST", "/v1/chat/completions",
                                      ApiRig::chat_body(R"("max_tokens":9)"), kAlpha));
  }
  for (int i = 0; i < 1000 && rig.sink.submitted() < 2; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  auto third = rig.chat("", kAlpha);
  EXPECT_EQ(third.status, 429);
  EXPECT_EQ(third.headers["retry-after"], "1");
  EXPECT_EQ(rig.chat("", kBeta).status, 200);
  clients.clear();
  int status = 429;
  for (int i = 0; i < 1000 && status == 429; ++i) status = rig.chat("", kAlpha).status;
  EXPECT_EQ(status, 200);
}

TEST(Keys, limit_tokens_a_minute) {
  ApiRig rig([](const Request&) { return says("x"); }, keyed_config());
  const std::string fields = fmt::format(R"("prompt":"{}")", std::string(120, 'x'));
  EXPECT_EQ(rig.complete(fields, kBeta).status, 200);
  auto second = rig.complete(fields, kBeta);
  EXPECT_EQ(second.status, 429);
  const int wait = std::atoi(second.headers["retry-after"].c_str());
  EXPECT_GE(wait, 1);
  EXPECT_LE(wait, 60);
  EXPECT_EQ(rig.complete(fields, kAlpha).status, 200);
}

TEST(KeyUse, refills_by_the_clock_and_charges_answers) {
  KeyEntry entry;
  entry.tokens_per_minute_max = 60;
  KeyUse use(entry);
  const Instant start{};
  EXPECT_TRUE(use.begin(50, start).ok());
  use.end(40, start);  // 30 below zero
  EXPECT_FALSE(use.begin(1, start + Duration::seconds(30)).ok());
  EXPECT_TRUE(use.begin(1, start + Duration::seconds(32)).ok());
  EXPECT_FALSE(use.begin(1000, start + Duration::seconds(60)).ok());
  EXPECT_TRUE(use.begin(1000, start + Duration::seconds(200)).ok());
}

TEST(KeyFile, mistakes_are_named) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "no [[key]]"},
      {"[[key]]\n", "exactly one of token and sha256"},
      {"[[key]]\ntoken = 5\n", "key[0].token"},
      {"[[key]]\ntoken = \"\"\n", "key[0].token"},
      {"[[key]]\nsha256 = \"abc\"\n", "64 hex digits"},
      {"[[key]]\ntoken = \"a\"\nname = \"x\"\n", "key[0].name is not a known name"},
      {"[[key]]\ntoken = \"a\"\nconcurrent_requests = 0\n", "between 1 and"},
      {"[[key]]\ntoken = \"a\"\n[[key]]\ntoken = \"a\"\n", "given twice"},
      {"[[key]]\ntoken = \n", "line 2"},
      {"keys = 1\n", "'keys' is not a known name"},
      {"key = [1]\n", "key[0] is not a table"},
  };
  for (const auto& [text, part] : cases) {
    const auto ring = KeyRing::parse(text);
    ASSERT_FALSE(ring.ok()) << text;
    EXPECT_NE(message_of(ring.status()).find(part), std::string_view::npos) << ring.status();
  }
  const auto digest = sha256({reinterpret_cast<const uint8_t*>("a"), 1});
  const auto by_digest = KeyRing::parse("[[key]]\nsha256 = \"" + to_hex(digest) + "\"\n");
  ASSERT_TRUE(by_digest.ok());
  EXPECT_NE(by_digest->find("a"), nullptr);
  EXPECT_EQ(by_digest->find("b"), nullptr);
  EXPECT_EQ(KeyRing::load("no/such/file").status().code(), StatusCode::kNotFound);
}

TEST(Binding, beyond_loopback_needs_keys) {
  ServerConfig config = test_config();
  for (const char* host : {"0.0.0.0", "::", "192.168.1.7", "example.org"}) {
    config.http.host = host;
    config.keys_file.clear();
    EXPECT_EQ(config.validate().code(), StatusCode::kInvalidArgument) << host;
    config.keys_file = "keys.toml";
    EXPECT_TRUE(config.validate().ok()) << host;
  }
}

TEST(Hosts, foreign_ones_are_refused_on_loopback) {
  ServerConfig config = test_config();
  config.allowed_hosts = {"my.proxy"};
  ApiRig rig([](const Request&) { return says("x"); }, config);
  const std::pair<const char*, int> cases[] = {
      {"localhost", 200},       {"LOCALHOST:1234", 200}, {"127.0.0.1:9", 200}, {"[::1]:80", 200},
      {"my.proxy:8443", 200},   {"evil.example", 403},   {"localhost.evil.example", 403},
      {"127.0.0.1.evil", 403},  {"", 403},
  };
  for (const auto& [host, status] : cases) {
    net::TestClient client(rig.address);
    client.send(fmt::format("GET /health HTTP/1.1\r\nhost: {}\r\n\r\n", host));
    EXPECT_EQ(client.read_reply().status, status) << host;
  }
  net::TestClient without(rig.address);
  without.send("GET /health HTTP/1.1\r\n\r\n");
  EXPECT_EQ(without.read_reply().status, 400);
}

TEST(Cors, is_silent_unless_configured) {
  ApiRig rig([](const Request&) { return says("x"); });
  const std::string_view evil =
      "origin: https://evil.example\r\naccess-control-request-method: POST\r\n";
  for (const char* method : {"OPTIONS", "POST"}) {
    const auto reply =
        rig.call(method, "/v1/chat/completions", ApiRig::chat_body(""), evil);
    for (const auto& [name, value] : reply.headers) {
      EXPECT_EQ(name.find("access-control"), std::string::npos) << name;
    }
  }
  net::TestClient form(rig.address);
  form.send("POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
            "origin: https://evil.example\r\ncontent-length: 2\r\n\r\n{}");
  EXPECT_EQ(form.read_reply().status, 415);
  ServerConfig config = test_config();
  config.cors_origins = {"https://mine.example"};
  ApiRig open([](const Request&) { return says("x"); }, config);
  auto mine = open.call("OPTIONS", "/v1/chat/completions", "",
                        "origin: https://mine.example\r\naccess-control-request-method: POST\r\n");
  EXPECT_EQ(mine.headers["access-control-allow-origin"], "https://mine.example");
  EXPECT_EQ(mine.headers["access-control-allow-methods"], "POST, OPTIONS");
  auto other = open.call("OPTIONS", "/v1/chat/completions", "", evil);
  EXPECT_EQ(other.headers.count("access-control-allow-origin"), 0u);
}

}  // namespace
}  // namespace lineshaft::api
