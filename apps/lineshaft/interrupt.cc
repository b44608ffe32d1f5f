#include "lineshaft/interrupt.h"

#include <atomic>
#include <csignal>

namespace lineshaft::app {
namespace {

std::atomic<int> count{0};
static_assert(std::atomic<int>::is_always_lock_free, "used in a signal handler");

void on_signal(int) { count.fetch_add(1); }

}  // namespace

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);  // no SA_RESTART: a blocked read ends
  sigaction(SIGTERM, &action, nullptr);
}

void ignore_broken_pipes() { std::signal(SIGPIPE, SIG_IGN); }

int interrupts() { return count.load(); }

void clear_interrupts() { count.store(0); }

}  // namespace lineshaft::app
