// Ctrl-C and SIGTERM as a counter that long work looks at. Handlers do nothing else.
#pragma once

namespace lineshaft::app {

// From now on SIGINT and SIGTERM count up instead of ending the process; SIGPIPE is ignored.
void catch_interrupts();

// Signals so far.
int interrupts();

// Back to zero (a dialogue's Ctrl-C ends one answer, not the next).
void clear_interrupts();

}  // namespace lineshaft::app
