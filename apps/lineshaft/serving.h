// Serving: engine and HTTP server of one loaded model, started together and stopped in order.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "api/server.h"
#include "base/metrics.h"
#include "base/status.h"
#include "lineshaft/config.h"
#include "lineshaft/local_engine.h"
#include "lineshaft/wiring.h"

namespace lineshaft::app {

api::ServerConfig server_config(const Config& config);

// The chat encoder for the model's template, or why there is none.
StatusOr<std::shared_ptr<const recipe::ChatEncoder>> chat_encoder(const OpenModel& model);

// How the model is talked to: by --encoding, or by its template; or why it isn't.
StatusOr<recipe::ChatFormat> chat_format(const Config& config,
                                         std::shared_ptr<const recipe::Tokenizer> tokenizer,
                                         std::string_view chat_template, std::string_view name);

// "Q4_1": the format that most of the model's bytes have.
std::string weight_format(const model::GgufFile& file);

class Serving {
 public:
  // kInvalidArgument: settings; kUnavailable: the address cannot be bound; else what
  // LocalEngine::start returns.
  static StatusOr<std::unique_ptr<Serving>> start(const Config& config, const LoadedModel& model);

  // The same without a model: a script says the answers (--test-script); --tokenizer or --model
  // gives the tokens.
  static StatusOr<std::unique_ptr<Serving>> start_scripted(const Config& config);

  LocalEngine& engine() { return *engine_; }
  api::Server& server() { return *server_; }
  const std::string& address() const { return address_; }   // "host:port"

  std::string url() const { return scheme_ + "://" + address_; }

  // A line for a shell that asks this server something.
  std::string curl_line() const;

 private:
  explicit Serving(const Config& config);

  // Starts the server over the engine.
  Status open(const Config& config, std::shared_ptr<const recipe::Tokenizer> tokenizer,
              StatusOr<recipe::ChatFormat> chat, api::ModelCard card);

  std::string scheme_ = "http";
  std::string model_name_;
  bool chat_ = true;
  bool keys_ = false;
  Metrics metrics_;                        // outlives both
  std::unique_ptr<LocalEngine> engine_;    // outlives the server
  std::unique_ptr<api::Server> server_;
  std::string address_;
};

}  // namespace lineshaft::app
