// lineshaft inspect: what is in a model file and what running it needs. Reads no weights.
#include <fmt/format.h>

#include <cstring>

#include "lineshaft/commands.h"
#include "lineshaft/exit_code.h"
#include "lineshaft/json_lines.h"
#include "lineshaft/machine.h"
#include "lineshaft/memory_plan.h"
#include "lineshaft/paths.h"
#include "lineshaft/print.h"
#include "lineshaft/terminal.h"
#include "model/spec_loader.h"
#include "model/weights.h"

namespace lineshaft::app {
namespace {

using model::GgufEntry;
using model::GgufFile;
using model::GgufType;

constexpr size_t kTextMax = 200;  // of a string value; templates are long

Json scalar_value(const GgufFile& file, const GgufEntry& entry) {
  if (entry.type == GgufType::kString) {
    const auto text = file.string(entry.key);
    return text.ok() ? Json(std::string(*text)) : Json();
  }
  if (entry.type == GgufType::kBool) return file.boolean(entry.key).value_or(false);
  if (entry.type == GgufType::kF32 || entry.type == GgufType::kF64) {
    const auto value = file.real(entry.key);
    if (!value.ok()) return Json();
    return entry.type == GgufType::kF32 ? json_float(static_cast<float>(*value)) : Json(*value);
  }
  const auto value = file.integer(entry.key);
  return value.ok() ? Json(*value) : Json();
}

// Arrays are told by type and length: a vocabulary is no reading matter.
Json entry_value(const GgufFile& file, const GgufEntry& entry) {
  if (entry.type == GgufType::kArray) {
    return Json{{"type", model::type_name(entry)}, {"count", entry.count}};
  }
  return scalar_value(file, entry);
}

Json tensor_json(const model::GgufTensor& tensor) {
  Json dims = Json::array();
  for (int i = 0; i < tensor.dim_count; ++i) dims.push_back(tensor.dims[i]);
  return Json{{"name", std::string(tensor.name)},
              {"type", std::string(kernels::info(tensor.type).name)},
              {"shape", dims},
              {"offset", tensor.offset},
              {"bytes", tensor.bytes}};
}

Json plan_json(const MemoryPlan& plan) {
  return Json{{"weights_bytes", plan.weights_bytes},
              {"embedding_bytes", plan.embedding_bytes},
              {"activation_bytes", plan.activation_bytes},
              {"kv_block_bytes", plan.kv_block_bytes},
              {"kv_blocks", plan.kv_blocks},
              {"kv_bytes", plan.kv_bytes()},
              {"total_bytes", plan.total_bytes()},
              {"available_bytes", memory_facts().available_bytes},
              {"context_tokens", plan.context_tokens},
              {"context_model", plan.context_model}};
}

Json all_json(const std::string& path, const GgufFile& file, const Json& plan) {
  Json metadata = Json::object();
  for (const GgufEntry& entry : file.entries()) {
    metadata[std::string(entry.key)] = entry_value(file, entry);
  }
  Json tensors = Json::array();
  for (const auto& tensor : file.tensors()) tensors.push_back(tensor_json(tensor));
  return Json{{"path", path},         {"bytes", file.size()},  {"gguf_version", file.version()},
              {"metadata", metadata}, {"tensors", tensors},    {"memory", plan}};
}

void print_text(const std::string& path, const GgufFile& file) {
  print(stdout, "{}: GGUF v{}, {}\n\nmetadata\n", path, file.version(),
        format_bytes(static_cast<double>(file.size())));
  for (const GgufEntry& entry : file.entries()) {
    std::string value = write_json(entry_value(file, entry));
    if (entry.type == GgufType::kArray) {
      value = fmt::format("{} x {}", entry.count, model::type_name(entry));
    } else if (value.size() > kTextMax) {
      value = model::printable(value);
    }
    print(stdout, "  {} = {}\n", model::printable(entry.key), value);
  }
  print(stdout, "\n{} tensors\n", file.tensors().size());
  for (const auto& tensor : file.tensors()) {
    std::string shape;
    for (int i = 0; i < tensor.dim_count; ++i) {
      shape += fmt::format("{}{}", i == 0 ? "" : " x ", tensor.dims[i]);
    }
    print(stdout, "  {:<40} {:<5} {:<20} {}\n", model::printable(tensor.name),
          kernels::info(tensor.type).name, shape,
          format_bytes(static_cast<double>(tensor.bytes)));
  }
}

void print_plan(const MemoryPlan& plan) {
  const auto line = [](const char* what, int64_t bytes, const std::string& note) {
    print(stdout, "  {:<14} {:>10}  {}\n", what, format_bytes(static_cast<double>(bytes)), note);
  };
  print(stdout, "\nmemory\n");
  line("weights", plan.weights_bytes, "packed");
  line("embedding", plan.embedding_bytes, "mapped, read as used");
  line("activations", plan.activation_bytes, "");
  line("KV pool", plan.kv_bytes(),
       fmt::format("{} blocks of {}, touched as used", plan.kv_blocks,
                   format_bytes(static_cast<double>(plan.kv_block_bytes))));
  line("total", plan.total_bytes(), "");
  print(stdout, "  context        {:>10}  of {} that the model could do\n", plan.context_tokens,
        plan.context_model);
}

StatusOr<MemoryPlan> plan_of(const GgufFile& file, const Config& config) {
  LS_ASSIGN_OR_RETURN(const ModelSpec spec, model::load_spec(file));
  LS_RETURN_IF_ERROR(model::bind_tensors(file, spec).status());
  return plan_memory(file, spec, config, memory_facts());
}

}  // namespace

int run_inspect(const Config& config) {
  const auto path = resolve_model(config.model.model);
  if (!path.ok()) return fail_load(path.status());
  const auto file = model::GgufFile::open(*path);
  if (!file.ok()) return fail_load(file.status());
  // A file that is whole but cannot be run is still worth looking at.
  const StatusOr<MemoryPlan> plan = plan_of(**file, config);
  if (config.common.json) {
    const Json terms = plan.ok() ? plan_json(*plan)
                                 : Json{{"error", std::string(message_of(plan.status()))}};
    print_json(all_json(*path, **file, terms));
  } else {
    print_text(*path, **file);
    if (plan.ok()) print_plan(*plan);
  }
  return plan.ok() ? kOk : fail_load(plan.status());
}

}  // namespace lineshaft::app
