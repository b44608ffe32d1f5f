// Requests for text in every dialect, and the count of their prompts' tokens.
#include <utility>

#include "api/server_impl.h"

namespace lineshaft::api {

bool Server::Impl::admit(const Exchange& exchange) const {
  if (draining.load()) {
    exchange.fail(with_retry_after(unavailable("the server is shutting down"), 2));
    return false;
  }
  if (const Status type = check_content_type(exchange.request); !type.ok()) {
    net::HttpResponse response = error_response(type, exchange.dialect, exchange.request_id);
    response.status = 415;
    exchange.reply(std::move(response));
    return false;
  }
  return true;
}

void Server::Impl::generate(Dialect dialect, Exchange&& exchange) {
  exchange.dialect = dialect;
  if (!admit(exchange)) return;
  live->fetch_add(1);
  exchange.ticket = std::shared_ptr<void>(nullptr, [count = live](void*) { count->fetch_sub(1); });
  run_text<StatusOr<Order>>(
      std::move(exchange),
      [this, dialect](const Exchange& of) {
        return prepare_order(dialect, of.request.body, orders, of.tenant());
      },
      [this](StatusOr<Order> order, Exchange&& of) { run_order(std::move(order), std::move(of)); });
}

void Server::Impl::count(Dialect dialect, Exchange&& exchange) {
  exchange.dialect = dialect;
  if (!admit(exchange)) return;
  run_text<StatusOr<int64_t>>(
      std::move(exchange),
      [this, dialect](const Exchange& of) {
        return count_prompt_tokens(dialect, of.request.body, orders, of.tenant());
      },
      [](StatusOr<int64_t> tokens, Exchange&& of) {
        if (!tokens.ok()) return of.fail(tokens.status());
        Json body = Json::object();
        if (of.dialect == Dialect::kResponses) body["object"] = "response.input_tokens";
        body["input_tokens"] = *tokens;
        of.reply_json(body);
      });
}

Status Server::Impl::begin(const Order& order, CompletionRequest& completion) {
  const uint64_t number = counter.fetch_add(1);
  completion.number = number;
  completion.id = fmt::format("{:016x}{:08x}", chance.split(1).bits(number),
                              static_cast<uint32_t>(number));
  // Drawn seeds stay below 2^53, so that every JSON reader can send one back exactly.
  completion.seed = order.generation.seed_given
                        ? order.generation.sampling.seed
                        : chance.split(2).bits(number) & ((uint64_t{1} << 53) - 1);
  completion.headers.emplace_back("x-seed",
                                  std::to_string(static_cast<int64_t>(completion.seed)));
  if (completion.key == nullptr) return ok_status();
  return completion.key->begin(order.prompt_tokens(), clock.now());
}

void Server::Impl::run_order(StatusOr<Order> order, Exchange&& exchange) {
  if (!order.ok()) return exchange.fail(order.status());
  CompletionRequest completion;
  completion.headers = exchange.headers;
  completion.request_id = exchange.request_id;
  completion.responder = exchange.responder;
  completion.key = exchange.key;
  completion.ticket = std::move(exchange.ticket);
  if (const Status begun = begin(*order, completion); !begun.ok()) return exchange.fail(begun);
  completion.order = std::move(*order);
  std::make_shared<Completion>(context, std::move(completion))->start();
}

}  // namespace lineshaft::api
