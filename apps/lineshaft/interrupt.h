// Ctrl-C and SIGTERM as a counter that long work looks at. Handlers do nothing else.
// Also: what becomes of writing to a reader that left.
#pragma once

namespace lineshaft::app {

// From now on SIGINT and SIGTERM count up instead of ending the process.
void catch_interrupts();

// From now on a peer that left is an error of the write, not the end of the process: for commands
// that talk to sockets. Others end with their reader, as in `lineshaft generate ... | head`.
void ignore_broken_pipes();

// Signals so far.
int interrupts();

// Back to zero (a dialogue's Ctrl-C ends one answer, not the next).
void clear_interrupts();

}  // namespace lineshaft::app
