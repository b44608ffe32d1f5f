// What the user's terminal can show: colour, bars, width. Asks the environment; writes nothing.
#pragma once

#include <string>

namespace lineshaft::app {

bool stdin_is_tty();
bool stdout_is_tty();
bool stderr_is_tty();

// Colour on `is_tty` unless NO_COLOR is set; CLICOLOR_FORCE (not "0") forces it.
bool use_colour(bool is_tty);

// Columns of standard error's terminal; 80 when unknown.
int terminal_width();

// "1.2 GB", "98.4 MB", "17 B": decimal units.
std::string format_bytes(double bytes);

// "[#####     ]" with `width` cells between the brackets; fraction is clamped to [0, 1].
std::string format_bar(double fraction, int width);

}  // namespace lineshaft::app
