// Chat templates in files of their own.
#pragma once

#include <string>

#include "base/status.h"

namespace lineshaft::app {

// The text of a chat template: that of the file, or its "chat_template" when the file is a
// tokenizer_config.json (of several, the one named default). kNotFound: the file can't be read;
// kInvalidArgument: a JSON object without a template.
StatusOr<std::string> read_template_file(const std::string& path);

}  // namespace lineshaft::app
