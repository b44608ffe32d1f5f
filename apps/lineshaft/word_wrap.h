// WordWrap: breaks streamed text between words where a terminal would break inside one. Holds back
// no more than the word that is being written. Code blocks (```) and lines that begin with a space
// or a table's bar pass as they are.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lineshaft::app {

class WordWrap {
 public:
  // Lines of at most `width` columns; 0: nothing is changed or held back.
  explicit WordWrap(size_t width) : width_(width) {}

  // What can be shown now.
  std::string add(std::string_view text);
  // What was held back. The text ends here.
  std::string finish();

 private:
  void put(char c, std::string* out);
  void put_wide(char c, std::string* out);
  void put_word(std::string* out);
  void break_before(size_t columns, std::string* out);
  void end_line(std::string* out);

  size_t width_;
  size_t column_ = 0;      // of what was shown of this line
  std::string spaces_;     // since the last word, not yet shown
  std::string word_;       // not yet shown
  std::string head_;       // the line's first three bytes
  bool in_wide_ = false;   // the last byte belongs to a character of two columns
  bool in_code_ = false;   // between two lines that begin with ```
};

}  // namespace lineshaft::app
