// RequestSink door: a front end's view of whatever serves requests (one engine or a cluster).
#pragma once

#include <memory>

#include "base/status.h"
#include "core/request.h"
#include "core/token_event.h"

namespace lineshaft {

// Where a request's events go. deliver() is called on the server's thread, in order, must not
// block and must not call back into the sink.
class TokenListener {
 public:
  virtual ~TokenListener() = default;
  virtual void deliver(TokenEvent&& event) = 0;
};

class RequestSink {
 public:
  virtual ~RequestSink() = default;

  // An id for a new request: unique in this process, rising.
  virtual RequestId next_id() = 0;

  // Thread-safe; never waits. kResourceExhausted: the inbox is full. After ok, `listener` gets
  // the events of token_event.h and is released after the last choice's kFinish.
  virtual Status submit(std::shared_ptr<const Request> request,
                        std::shared_ptr<TokenListener> listener) = 0;

  // Thread-safe, idempotent, may name an unknown or finished request. Every choice that has not
  // finished gets a kFinish with kCancelled.
  virtual void cancel(RequestId request) = 0;

  // One choice only: its answer is complete (a stop string matched); the others go on.
  virtual void cancel_choice(RequestId request, int32_t choice) = 0;
};

}  // namespace lineshaft
