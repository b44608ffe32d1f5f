// Streaming clients on one server that speaks OpenAI's completions, ours or llama-server: tokens a
// second, time to the first token, gaps between tokens. One thread and one event loop, because it
// shares the machine with the server that it measures.
//
//   http_load HOST:PORT --clients 16 --rounds 2 --words 120 --tokens 64
//   http_load HOST:PORT --clients 16 --words 72 --tokens 900 --long-words 6600 --alone-seconds 4
//
// The first form: every client asks --rounds times, one after the other. The second: the clients
// stream all the time; after --alone-seconds a prompt of --long-words arrives, and the measurement
// ends with its answer. Every prompt begins with words of its own, so that no prefix is reused.
// Prints one JSON object; tokens are the server's own count. Exit 1 when an answer is not whole.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/rng.h"

namespace lineshaft {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Clock = std::chrono::steady_clock;
using Instant = Clock::time_point;
using ErrorCode = boost::system::error_code;

struct Settings {
  std::string address;
  std::string model = "any";
  int clients = 16;
  int rounds = 1;
  int words = 120;
  int tokens = 64;
  int long_words = 0;
  int long_tokens = 16;
  double alone_seconds = 4;
  uint64_t seed = 1;
};

// What one answer was.
struct Answer {
  Instant begin;
  std::vector<Instant> texts;   // when each event with text came
  int prompt_tokens = 0;
  int tokens = 0;
  std::string fault;            // "" when it came whole
};

double ms_between(Instant a, Instant b) {
  return std::chrono::duration<double, std::milli>(b - a).count();
}

// Cuts a body into event lines and notes in `answer` what they tell. Looks for the two fields it
// needs instead of parsing: quotes inside generated text are escaped, so that no text looks so.
class EventLines {
 public:
  explicit EventLines(Answer& answer) : answer_(answer) {}

  void add(std::string_view bytes, Instant now) {
    rest_.append(bytes);
    size_t begin = 0;
    for (size_t end; (end = rest_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      line(std::string_view(rest_).substr(begin, end - begin), now);
    }
    rest_.erase(0, begin);
  }

 private:
  static int number_after(std::string_view text, std::string_view key) {
    const size_t at = text.find(key);
    return at == std::string_view::npos ? 0 : std::atoi(text.data() + at + key.size());
  }

  void line(std::string_view text, Instant now) {
    constexpr std::string_view kText = "\"text\":\"";
    if (!text.starts_with("data:")) return;
    const size_t at = text.find(kText);
    if (at != std::string_view::npos && text.substr(at + kText.size(), 1) != "\"") {
      answer_.texts.push_back(now);
    }
    if (const int n = number_after(text, "\"completion_tokens\":")) answer_.tokens = n;
    if (const int n = number_after(text, "\"prompt_tokens\":")) answer_.prompt_tokens = n;
  }

  Answer& answer_;
  std::string rest_;
};

// One request on a connection of its own. `done` is called once, unless it is stopped before.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(asio::io_context& io, Answer& answer, std::function<void()> done)
      : socket_(io), answer_(answer), lines_(answer), done_(std::move(done)) {
    parser_.body_limit(boost::none);
  }

  void start(const asio::ip::tcp::endpoint& server, std::string body) {
    request_.method(http::verb::post);
    request_.target("/v1/completions");
    request_.version(11);
    request_.set(http::field::host, "localhost");
    request_.set(http::field::content_type, "application/json");
    request_.set(http::field::connection, "close");
    request_.body() = std::move(body);
    request_.prepare_payload();
    answer_.begin = Clock::now();
    socket_.async_connect(server, [self = shared_from_this()](ErrorCode error) {
      if (error) return self->end(error.message());
      self->socket_.set_option(asio::ip::tcp::no_delay(true));
      http::async_write(self->socket_, self->request_, [self](ErrorCode broken, size_t) {
        if (broken) return self->end(broken.message());
        self->read();
      });
    });
  }

  // Leaves as a client that closes its window does.
  void stop() {
    done_ = nullptr;
    ErrorCode ignored;
    socket_.close(ignored);
  }

 private:
  void read() {
    parser_.get().body().data = piece_.data();
    parser_.get().body().size = piece_.size();
    http::async_read_some(socket_, buffer_, parser_, [self = shared_from_this()](ErrorCode error,
                                                                                 size_t) {
      if (error && error != http::error::need_buffer) return self->end(error.message());
      const size_t got = self->piece_.size() - self->parser_.get().body().size;
      self->lines_.add({self->piece_.data(), got}, Clock::now());
      if (!self->parser_.is_done()) return self->read();
      const unsigned status = self->parser_.get().result_int();
      self->end(status == 200 ? "" : "status " + std::to_string(status));
    });
  }

  void end(const std::string& fault) {
    if (!done_) return;
    answer_.fault = fault;
    const auto done = std::move(done_);
    done_ = nullptr;
    done();
  }

  asio::ip::tcp::socket socket_;
  Answer& answer_;
  EventLines lines_;
  std::function<void()> done_;
  http::request<http::string_body> request_;
  http::response_parser<http::buffer_body> parser_;
  boost::beast::flat_buffer buffer_;
  std::array<char, 4096> piece_;
};

class Load {
 public:
  Load(const Settings& settings, asio::ip::tcp::endpoint server)
      : settings_(settings), server_(std::move(server)), key_(settings.seed), timer_(io_) {}

  Json run() {
    begin_ = Clock::now();
    for (int i = 0; i < settings_.clients; ++i) ask(i, settings_.rounds);
    if (settings_.long_words > 0) {
      timer_.expires_after(std::chrono::microseconds(
          static_cast<int64_t>(settings_.alone_seconds * 1e6)));
      timer_.async_wait([this](ErrorCode) { ask_long(); });
    }
    io_.run();
    return report();
  }

 private:
  std::string prompt(int words) {
    static constexpr std::array<const char*, 16> kWords = {
        "river", "stone", "cloud", "lamp",   "garden", "winter", "paper", "engine",
        "silver", "road", "house", "window", "market", "table",  "field", "story"};
    std::string out = "Once";
    for (int i = 1; i < words; ++i) {
      out += ' ';
      out += kWords[key_.below(counter_++, kWords.size())];
    }
    return out;
  }

  std::string body(int words, int tokens) {
    return write_json(Json{{"model", settings_.model},
                           {"prompt", prompt(words)},
                           {"max_tokens", tokens},
                           {"temperature", 0},
                           {"ignore_eos", true},
                           {"cache_prompt", false},
                           {"stream", true},
                           {"stream_options", {{"include_usage", true}}}});
  }

  // In the mixed load a client asks until the long answer has ended.
  void ask(int client, int rounds_left) {
    answers_.push_back(std::make_unique<Answer>());
    const bool mixed = settings_.long_words > 0;
    auto stream = std::make_shared<Stream>(io_, *answers_.back(), [=, this] {
      if (mixed || rounds_left > 1) ask(client, rounds_left - 1);
    });
    if (streams_.size() <= static_cast<size_t>(client)) streams_.resize(client + 1);
    streams_[client] = stream;
    stream->start(server_, body(settings_.words, settings_.tokens));
  }

  void ask_long() {
    long_stream_ = std::make_shared<Stream>(io_, long_answer_, [this] {
      for (const auto& stream : streams_) stream->stop();
    });
    long_stream_->start(server_, body(settings_.long_words, settings_.long_tokens));
  }

  static Json quantiles(std::vector<double> values) {
    if (values.empty()) return nullptr;
    std::sort(values.begin(), values.end());
    const auto at = [&](double p) {
      return values[std::min(values.size() - 1, static_cast<size_t>(p * values.size()))];
    };
    return Json{{"count", values.size()}, {"p50", at(0.5)},   {"p90", at(0.9)},
                {"p99", at(0.99)},        {"max", values.back()}};
  }

  // Gaps that end in (from, to].
  std::vector<double> gaps(Instant from, Instant to) const {
    std::vector<double> out;
    for (const auto& answer : answers_) {
      const auto& t = answer->texts;
      for (size_t i = 1; i < t.size(); ++i) {
        if (t[i] > from && t[i] <= to) out.push_back(ms_between(t[i - 1], t[i]));
      }
    }
    return out;
  }

  Json report() {
    Instant last = begin_;
    int64_t tokens = 0, prompt_tokens = 0, whole = 0;
    std::vector<double> first;
    std::string fault = settings_.long_words > 0 ? long_answer_.fault : "";
    for (const auto& answer : answers_) {
      if (!answer->fault.empty()) fault = answer->fault;
      if (answer->texts.empty()) continue;
      first.push_back(ms_between(answer->begin, answer->texts.front()));
      last = std::max(last, answer->texts.back());
      tokens += answer->tokens;
      prompt_tokens += answer->prompt_tokens;
      whole += answer->tokens == settings_.tokens;
    }
    Json out = {{"clients", settings_.clients}, {"fault", fault}, {"first_token_ms",
                                                                    quantiles(first)}};
    if (settings_.long_words > 0) {
      add_mixed(out);
      return out;
    }
    if (fault.empty() && whole != static_cast<int64_t>(answers_.size())) {
      out["fault"] = "an answer is shorter than asked";
    }
    out["requests"] = answers_.size();
    out["prompt_tokens"] = prompt_tokens / std::max<int64_t>(1, whole);
    out["tokens_per_second"] = tokens * 1e3 / ms_between(begin_, last);
    out["gap_ms"] = quantiles(gaps(begin_, last));
    return out;
  }

  void add_mixed(Json& out) {
    Instant steady = begin_;   // when every stream has begun
    for (int i = 0; i < settings_.clients; ++i) {
      if (!answers_[i]->texts.empty()) steady = std::max(steady, answers_[i]->texts.front());
    }
    if (long_answer_.texts.empty()) {
      out["fault"] = "the long prompt has no answer";
      return;
    }
    out["gap_alone_ms"] = quantiles(gaps(steady, long_answer_.begin));
    out["gap_with_long_ms"] = quantiles(gaps(long_answer_.begin, long_answer_.texts.back()));
    out["long_prompt_tokens"] = long_answer_.prompt_tokens;
    out["long_first_token_ms"] = ms_between(long_answer_.begin, long_answer_.texts.front());
  }

  const Settings settings_;
  const asio::ip::tcp::endpoint server_;
  const RngKey key_;
  uint64_t counter_ = 0;
  asio::io_context io_{1};
  asio::steady_timer timer_;
  Instant begin_;
  std::vector<std::unique_ptr<Answer>> answers_;   // the first ones are the clients' first
  std::vector<std::shared_ptr<Stream>> streams_;   // of each client, the newest
  Answer long_answer_;
  std::shared_ptr<Stream> long_stream_;
};

int run(int argc, char** argv) {
  Settings s;
  CLI::App app("Streaming clients on a server of OpenAI's completions", "http_load");
  app.option_defaults()->always_capture_default();
  app.add_option("ADDRESS", s.address, "HOST:PORT, an IP address")->required();
  app.add_option("--model", s.model, "The model's name in the requests");
  app.add_option("--clients", s.clients, "Streams at once")->check(CLI::Range(1, 10'000));
  app.add_option("--rounds", s.rounds, "Requests of each client")->check(CLI::Range(1, 1000));
  app.add_option("--words", s.words, "Words of a prompt, about as many tokens");
  app.add_option("--tokens", s.tokens, "Tokens of an answer");
  app.add_option("--long-words", s.long_words, "Of the long prompt; 0: none comes");
  app.add_option("--long-tokens", s.long_tokens, "Of its answer");
  app.add_option("--alone-seconds", s.alone_seconds, "Before the long prompt comes");
  app.add_option("--seed", s.seed, "Of the prompts' words; another one for every run on a server");
  CLI11_PARSE(app, argc, argv);
  const size_t colon = s.address.rfind(':');
  const int port = colon == std::string::npos ? 0 : std::atoi(s.address.c_str() + colon + 1);
  ErrorCode error;
  const auto host = asio::ip::make_address(s.address.substr(0, colon), error);
  if (error || port <= 0 || port > 65'535) {
    std::fprintf(stderr, "http_load: '%s' is not an IP address and a port\n", s.address.c_str());
    return 2;
  }
  const Json out = Load(s, {host, static_cast<uint16_t>(port)}).run();
  std::puts(write_json(out).c_str());
  return out["fault"] == "" ? 0 : 1;
}

}  // namespace
}  // namespace lineshaft

int main(int argc, char** argv) { return lineshaft::run(argc, argv); }
