// At stake: no client may crash, stall or fill the server, whatever bytes it sends or fails to
// read; and a handler learns at once that its client is gone. Field reports P077, P079, P037, P074.
#include "net/http_server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "net/address.h"
#include "net/test_client.h"

namespace lineshaft::net {
namespace {

using std::chrono::milliseconds;

HttpConfig quick_config() {
  HttpConfig config;
  config.port = 0;
  config.receive_timeout = Duration::milliseconds(400);
  config.idle_timeout = Duration::milliseconds(600);
  config.write_timeout = Duration::milliseconds(800);
  config.heartbeat_interval = Duration::milliseconds(100);
  return config;
}

// Routes: /echo answers with what it got; /hold never answers; /stream streams count= numbers;
// /silent begins a stream and says nothing; /drop forgets its Responder.
class Rig {
 public:
  explicit Rig(HttpConfig config = quick_config())
      : server(config, [this](HttpRequest&& request, std::shared_ptr<Responder> responder) {
          handle(std::move(request), std::move(responder));
        }) {
    const auto started = server.start();
    EXPECT_TRUE(started.ok()) << started.status();
    address = started.value_or("");
  }
  ~Rig() {
    server.stop();
    held.clear();
    for (auto& thread : threads) thread.join();
  }

  void handle(HttpRequest&& request, std::shared_ptr<Responder> responder) {
    responder->on_disconnect([this](std::string_view reason) {
      last_reason = std::string(reason);
      ++gone;
    });
    if (request.path == "/echo") {
      responder->send({200, {{"x-query", request.query}}, request.method + " " + request.body});
    } else if (request.path == "/hold") {
      held.push_back(std::move(responder));
    } else if (request.path == "/silent") {
      responder->begin_stream({200, {}, ": beat\n\n"});
      held.push_back(std::move(responder));
    } else if (request.path == "/stream") {
      const int count = std::atoi(request.query.c_str());
      threads.emplace_back([responder, count] {
        responder->begin_stream({200, {{"content-type", "text/plain"}}, ""});
        for (int i = 0; i < count; ++i) responder->write(std::to_string(i) + "\n");
        responder->end();
      });
    }
  }

  bool wait_gone(int count) const {
    for (int i = 0; i < 1000 && gone < count; ++i) std::this_thread::sleep_for(milliseconds(2));
    return gone >= count;
  }

  std::atomic<int> gone{0};
  std::string last_reason;  // written before `gone` rises
  std::vector<std::shared_ptr<Responder>> held;
  std::vector<std::thread> threads;
  std::string address;
  HttpServer server;
};

constexpr std::string_view kGet = "GET /echo?a=b HTTP/1.1\r\nhost: x\r\n\r\n";

std::string post(std::string_view path, std::string_view body) {
  return fmt::format("POST {} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{}", path,
                     body.size(), body);
}

TEST(HttpServer, answers_keeps_alive_and_pipelines_in_order) {
  Rig rig;
  TestClient client(rig.address);
  client.send(post("/echo", "one") + post("/echo", "two") + std::string(kGet));
  EXPECT_EQ(client.read_reply().body, "POST one");
  EXPECT_EQ(client.read_reply().body, "POST two");
  auto last = client.read_reply();
  EXPECT_EQ(last.body, "GET ");
  EXPECT_EQ(last.headers["x-query"], "a=b");
  EXPECT_EQ(last.headers["connection"], "keep-alive");
  EXPECT_FALSE(last.headers["date"].empty());
}

TEST(HttpServer, speaks_the_odd_corners_of_http) {
  Rig rig;
  TestClient head(rig.address);
  head.send("HEAD /echo HTTP/1.1\r\nhost: x\r\n\r\n");
  EXPECT_EQ(head.read_reply(true).headers["content-length"], "5");
  head.send("GET http://any.where/echo?q HTTP/1.1\r\nhost: x\r\n\r\n");
  EXPECT_EQ(head.read_reply().headers["x-query"], "q");
  TestClient old(rig.address);
  old.send("GET /echo HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.read_reply().headers["connection"], "close");
  EXPECT_FALSE(old.read_some());
  EXPECT_TRUE(old.eof());
  TestClient expecting(rig.address);
  expecting.send("POST /echo HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\n"
                 "content-length: 2\r\n\r\n");
  ASSERT_TRUE(expecting.read_until("100 Continue\r\n\r\n"));
  expecting.send("ok");
  EXPECT_EQ(expecting.read_reply().body, "POST ok");
  TestClient chunked(rig.address);
  chunked.send("POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
               "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n");
  EXPECT_EQ(chunked.read_reply().body, "POST abcde");
}

TEST(HttpServer, a_request_in_single_bytes_is_the_same_request) {
  Rig rig;
  TestClient client(rig.address);
  for (const char c : post("/echo", "slow but whole")) client.send(std::string_view(&c, 1));
  EXPECT_EQ(client.read_reply().body, "POST slow but whole");
}

TEST(HttpServer, refuses_what_is_too_long_or_not_http) {
  HttpConfig config = quick_config();
  config.body_bytes_max = 100;
  config.header_bytes_max = 1000;
  Rig rig(config);
  const std::string big_header =
      "GET /echo HTTP/1.1\r\nhost: x\r\nx: " + std::string(2000, 'y') + "\r\n\r\n";
  const std::string chunked_body = fmt::format(
      "POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n80\r\n{}\r\n0\r\n\r\n",
      std::string(128, 'x'));
  const std::pair<std::string, int> cases[] = {
      {post("/echo", std::string(100, 'x')), 200},
      {post("/echo", std::string(101, 'x')), 413},
      {"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999999\r\n\r\n", 413},
      {"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n", 400},
      {"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", 400},
      {chunked_body, 413},
      {big_header, 431},
      {"\x16\x03\x01\x02", 400},
      {"GET /echo HTTP/9.9\r\nhost: x\r\n\r\n", 0},
      {"hello\r\n\r\n", 400},
  };
  for (const auto& [bytes, status] : cases) {
    TestClient client(rig.address);
    client.send(bytes);
    const auto reply = client.read_reply();
    EXPECT_TRUE(status == 0 ? reply.status >= 400 : reply.status == status)
        << bytes.substr(0, 60) << " -> " << reply.status;
    EXPECT_TRUE(reply.complete);
  }
}

TEST(HttpServer, all_bodies_together_have_a_limit) {
  HttpConfig config = quick_config();
  config.body_bytes_max = 1 << 20;
  config.bodies_bytes_max = 4 << 20;
  Rig rig(config);
  const std::string most = post("/echo", std::string(1 << 20, 'x')).substr(0, 1 << 20);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<TestClient>(rig.address));
    clients.back()->send(most);
  }
  std::this_thread::sleep_for(milliseconds(100));
  TestClient extra(rig.address);
  extra.send(most);
  EXPECT_EQ(extra.read_reply().status, 503);
  clients.clear();
  std::this_thread::sleep_for(milliseconds(50));
  TestClient again(rig.address);
  again.send(post("/echo", std::string(1 << 20, 'x')));
  EXPECT_EQ(again.read_reply().status, 200);
}

TEST(HttpServer, slow_senders_are_cut_by_the_deadline_and_disturb_nobody) {
  Rig rig;
  std::vector<std::unique_ptr<TestClient>> slow;
  for (int i = 0; i < 200; ++i) {
    slow.push_back(std::make_unique<TestClient>(rig.address));
    slow.back()->send("POST /echo HT");
  }
  std::atomic<bool> stop{false};
  std::thread drip([&] {
    while (!stop) {
      for (auto& client : slow) client->send("T");
      std::this_thread::sleep_for(milliseconds(50));
    }
  });
  SystemClock clock;
  Duration worst{};
  for (int i = 0; i < 100; ++i) {
    TestClient normal(rig.address);
    const Instant began = clock.now();
    normal.send(kGet);
    EXPECT_EQ(normal.read_reply().status, 200);
    worst = std::max(worst, clock.now() - began);
  }
  stop = true;
  drip.join();
  EXPECT_LT(worst, Duration::milliseconds(300));
  int timed_out = 0;
  for (auto& client : slow) timed_out += client->read_reply().status == 408;
  EXPECT_GE(timed_out, 190);  // a byte sent after the cut may turn the 408 into a reset
  slow.clear();
  for (int i = 0; i < 500 && rig.server.connection_count() > 0; ++i) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(rig.server.connection_count(), 0);
}

TEST(HttpServer, streams_arrive_whole_from_other_threads) {
  Rig rig;
  TestClient client(rig.address);
  client.send("GET /stream?2000 HTTP/1.1\r\nhost: x\r\n\r\n" + std::string(kGet));
  std::string expected;
  for (int i = 0; i < 2000; ++i) expected += std::to_string(i) + "\n";
  const auto reply = client.read_reply();
  EXPECT_TRUE(reply.complete);
  EXPECT_EQ(reply.body, expected);
  EXPECT_EQ(client.read_reply().body, "GET ");
  TestClient old(rig.address);
  old.send("GET /stream?2000 HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.read_reply().body, expected);
}

TEST(HttpServer, a_silent_stream_has_heartbeats) {
  Rig rig;
  TestClient client(rig.address);
  client.send("GET /silent HTTP/1.1\r\nhost: x\r\n\r\n");
  ASSERT_TRUE(client.read_until(": beat\n\n", 1000));
  client.buffer().clear();
  ASSERT_TRUE(client.read_until(": beat\n\n", 1000));
}

TEST(HttpServer, the_handler_learns_that_its_client_is_gone) {
  Rig rig;
  {
    TestClient waiting(rig.address);
    waiting.send("GET /hold HTTP/1.1\r\nhost: x\r\n\r\n");
    std::this_thread::sleep_for(milliseconds(50));
  }
  EXPECT_TRUE(rig.wait_gone(1));
  {
    TestClient streaming(rig.address);
    streaming.send("GET /silent HTTP/1.1\r\nhost: x\r\n\r\n");
    streaming.read_until("\r\n\r\n");
  }
  EXPECT_TRUE(rig.wait_gone(2));
  TestClient fine(rig.address);
  fine.send(kGet);
  fine.read_reply();
  fine.close();
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(rig.gone, 2);
}

TEST(HttpServer, a_client_that_never_reads_is_dropped_and_others_run_on) {
  HttpConfig config = quick_config();
  config.stream_buffer_bytes_max = 64 << 10;
  Rig rig(config);
  TestClient deaf(rig.address, 4096);
  deaf.send("GET /stream?3000000 HTTP/1.1\r\nhost: x\r\n\r\n");
  ASSERT_TRUE(rig.wait_gone(1));
  EXPECT_EQ(rig.last_reason, "the client reads too slowly");
  TestClient fine(rig.address);
  fine.send(kGet);
  EXPECT_EQ(fine.read_reply().status, 200);
}

TEST(HttpServer, a_reply_that_nobody_reads_times_out) {
  Rig rig;
  TestClient deaf(rig.address, 4096);
  deaf.send(post("/echo", std::string(20 << 20, 'x')));
  SystemClock clock;
  const Instant began = clock.now();
  while (rig.server.connection_count() > 0 && clock.now() - began < Duration::seconds(5)) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(rig.server.connection_count(), 0);
}

TEST(HttpServer, a_forgotten_responder_is_a_500) {
  Rig rig;
  TestClient client(rig.address);
  client.send("GET /drop HTTP/1.1\r\nhost: x\r\n\r\n" + std::string(kGet));
  EXPECT_EQ(client.read_reply().status, 500);
  EXPECT_EQ(client.read_reply().status, 200);
}

TEST(HttpServer, a_full_server_says_so) {
  HttpConfig config = quick_config();
  config.connections_max = 4;
  Rig rig(config);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<TestClient>(rig.address));
    clients.back()->send("GET /hold HTTP/1.1\r\nhost: x\r\n\r\n");
  }
  std::this_thread::sleep_for(milliseconds(50));
  TestClient extra(rig.address);
  auto reply = extra.read_reply();
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.headers["retry-after"], "1");
  clients.clear();
  EXPECT_TRUE(rig.wait_gone(4));
  TestClient again(rig.address);
  again.send(kGet);
  EXPECT_EQ(again.read_reply().status, 200);
}

TEST(HttpServer, idle_connections_close_and_draining_ends_keep_alive) {
  Rig rig;
  TestClient idle(rig.address);
  idle.send(kGet);
  idle.read_reply();
  EXPECT_FALSE(idle.read_some(3000));
  EXPECT_TRUE(idle.eof());
  TestClient running(rig.address);
  running.send("GET /stream?10 HTTP/1.1\r\nhost: x\r\n\r\n");
  EXPECT_TRUE(running.read_reply().complete);
  rig.server.begin_drain();
  TestClient late(rig.address);
  late.send(kGet);
  EXPECT_EQ(late.read_reply().headers["connection"], "close");
  EXPECT_FALSE(running.read_some(3000));
  EXPECT_TRUE(running.eof());
}

TEST(HttpServer, says_why_it_cannot_start) {
  Rig rig;
  HttpConfig config = quick_config();
  config.port = static_cast<uint16_t>(std::atoi(rig.address.c_str() + rig.address.rfind(':') + 1));
  HttpServer second(config, [](HttpRequest&&, std::shared_ptr<Responder>) {});
  EXPECT_EQ(second.start().status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(HttpServer::check(config).code(), StatusCode::kUnavailable);
  config.tls_cert_file = "nowhere.pem";
  HttpServer half(config, [](HttpRequest&&, std::shared_ptr<Responder>) {});
  EXPECT_EQ(half.start().status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(HttpServer::check(config).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(HttpServer::check(quick_config()).ok());
}

TEST(Address, knows_loopback_and_takes_hosts_apart) {
  for (const char* host : {"localhost", "127.0.0.1", "127.8.9.1", "::1", "[::1]"}) {
    EXPECT_TRUE(is_loopback_host(host)) << host;
  }
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "example.org", "localhost.evil", ""}) {
    EXPECT_FALSE(is_loopback_host(host)) << host;
  }
  EXPECT_EQ(host_part("[::1]:80"), "::1");
  EXPECT_EQ(host_part("LocalHost:1"), "localhost");
  EXPECT_EQ(host_part("evil.example"), "evil.example");
  EXPECT_EQ(join_address("::1", 5), "[::1]:5");
}

}  // namespace
}  // namespace lineshaft::net
