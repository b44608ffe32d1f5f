// Wiring: from the configuration to a model that can run. The only place where rooms that must
// not know each other are joined.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "core/model_spec.h"
#include "lineshaft/config.h"
#include "lineshaft/memory_plan.h"
#include "model/gguf.h"
#include "model/weights.h"
#include "recipe/tokenizer/tokenizer.h"

namespace lineshaft::app {

// A model file whose metadata is read and checked; no weights yet.
struct OpenModel {
  std::string path;
  std::string name;   // as clients know it
  std::shared_ptr<const model::GgufFile> file;
  ModelSpec spec;
  std::shared_ptr<const recipe::Tokenizer> tokenizer;
  std::string chat_template;  // "" when the file has none
};

// --tokenizer's file, or the model file's own data. Warnings go to the log.
StatusOr<std::shared_ptr<const recipe::Tokenizer>> open_tokenizer(const Config& config);

// --chat-template's, or the model file's own; "" when it has none.
StatusOr<std::string> open_chat_template(const Config& config);

// kNotFound: no such model; kDataLoss, kUnimplemented: the file; kInvalidArgument: a tokenizer
// that does not fit the model.
StatusOr<OpenModel> open_model(const Config& config);

// Bytes done of all while weights are packed.
using LoadTalk = model::LoadProgress;

// A bar on standard error where that is a terminal, else nothing.
LoadTalk load_bar();

// A model whose weights are in memory, and the plan that they were loaded under.
struct LoadedModel {
  OpenModel open;
  MemoryPlan plan;
  std::shared_ptr<const model::Weights> weights;
};

// plan_memory, then the weights. Errors of both; a forced instruction set that this CPU lacks is
// kInvalidArgument.
StatusOr<LoadedModel> load_model(const Config& config, OpenModel open,
                                 const LoadTalk& talk = load_bar());

// open_model and load_model.
StatusOr<LoadedModel> load_model(const Config& config);

}  // namespace lineshaft::app
