#include "lineshaft/doctor.h"

#include <fmt/format.h>

#include <fstream>
#include <thread>

#include "kernels/backend.h"
#include "lineshaft/machine.h"
#include "lineshaft/memory_plan.h"
#include "lineshaft/paths.h"
#include "lineshaft/terminal.h"
#include "model/spec_loader.h"
#include "model/weights.h"

namespace lineshaft::app {
namespace {

using kernels::Isa;

std::string bytes_text(int64_t bytes) { return format_bytes(static_cast<double>(bytes)); }

Check check_cpu() {
  Check check{"cpu", CheckState::kGood, cpu_name(), ""};
  std::string sets;
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
    if (!kernels::cpu_has(isa)) continue;
    sets += (sets.empty() ? "" : ", ") + std::string(kernels::name_of(isa));
  }
  check.detail += fmt::format("; kernels: {} (of {})", kernels::name_of(kernels::best_isa()), sets);
  if (kernels::best_isa() == Isa::kScalar) {
    check.state = CheckState::kWarn;
    check.fix = "this CPU has no AVX2 (with FMA and F16C): answers are right but very slow";
  }
  return check;
}

Check check_cores(const Config& config) {
  const int cores = usable_cores();
  Check check{"cores", CheckState::kGood,
              fmt::format("{} usable of {}; compute threads: {}", cores,
                          std::thread::hardware_concurrency(), thread_count(config)),
              ""};
  if (thread_count(config) > cores) {
    check.state = CheckState::kWarn;
    check.fix = fmt::format("more threads than cores wait for each other: set --threads {}", cores);
  }
  return check;
}

Check check_memory() {
  const MemoryFacts facts = memory_facts();
  Check check{"memory", CheckState::kGood,
              fmt::format("{} of {} available", bytes_text(facts.available_bytes),
                          bytes_text(facts.total_bytes)),
              ""};
  if (facts.available_bytes < int64_t{1} << 30) {
    check.state = CheckState::kWarn;
    check.fix = "less than 1 GiB is free: close other programs or use --max-context";
  }
  return check;
}

Check check_huge_pages() {
  std::ifstream in("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string modes;
  std::getline(in, modes);
  Check check{"huge_pages", CheckState::kGood, "transparent huge pages: " + modes, ""};
  if (modes.empty()) check.detail = "transparent huge pages: not told by this system";
  if (modes.find("[never]") != std::string::npos) {
    check.state = CheckState::kWarn;
    check.fix = "weights are read up to a third slower: write 'madvise' into "
                "/sys/kernel/mm/transparent_hugepage/enabled";
  }
  return check;
}

Check check_disk() {
  const std::string folder = models_dir().string();
  const StatusOr<DiskFacts> facts = measure_disk(folder);
  if (!facts.ok()) {
    return {"disk", CheckState::kFail, std::string(message_of(facts.status())),
            "make " + folder + " writable or set XDG_DATA_HOME"};
  }
  Check check{"disk", CheckState::kGood,
              fmt::format("{}: {} free, writes {:.0f} MB/s, reads {:.0f} MB/s", folder,
                          bytes_text(facts->free_bytes), facts->write_mb_per_s,
                          facts->read_mb_per_s),
              ""};
  if (facts->free_bytes < int64_t{1} << 30) {
    check.state = CheckState::kWarn;
    check.fix = "less than 1 GiB is free: delete models you do not use";
  } else if (facts->read_mb_per_s > 0 && facts->read_mb_per_s < 100) {
    check.state = CheckState::kWarn;
    check.fix = "a slow disk makes loading slow: keep models on another one (XDG_DATA_HOME)";
  }
  return check;
}

Check check_open_files() {
  const int64_t limit = open_files_max();
  Check check{"open_files", CheckState::kGood, fmt::format("ulimit -n {}", limit), ""};
  if (limit < 1024) {
    check.state = CheckState::kWarn;
    check.fix = "the server can hold fewer connections than its default: ulimit -n 4096";
  }
  return check;
}

StatusOr<std::string> model_facts(const Config& config) {
  LS_ASSIGN_OR_RETURN(const std::string path, resolve_model(config.model.model));
  LS_ASSIGN_OR_RETURN(const auto file, model::GgufFile::open(path));
  LS_ASSIGN_OR_RETURN(const ModelSpec spec, model::load_spec(*file));
  LS_RETURN_IF_ERROR(model::bind_tensors(*file, spec).status());
  LS_ASSIGN_OR_RETURN(const MemoryPlan plan, plan_memory(*file, spec, config, memory_facts()));
  return fmt::format("{}: with {} tokens of context needs {} of {} free{}", path,
                     plan.context_tokens, bytes_text(plan.total_bytes()),
                     bytes_text(memory_facts().available_bytes),
                     plan.context_lowered ? " (context lowered to fit)" : "");
}

Check check_model(const Config& config) {
  const StatusOr<std::string> facts = model_facts(config);
  if (facts.ok()) return {"model", CheckState::kGood, *facts, ""};
  Check check{"model", CheckState::kFail, std::string(message_of(facts.status())), ""};
  switch (facts.status().code()) {
    case StatusCode::kNotFound:
      check.state = CheckState::kWarn;  // a machine without a model is not broken
      check.fix = "name a model with --model, or get the default one with ./run --setup-only";
      break;
    case StatusCode::kDataLoss: check.fix = "fetch the file again: lineshaft pull --force"; break;
    case StatusCode::kResourceExhausted:
    case StatusCode::kOutOfRange: check.fix = "change the setting named above"; break;
    default: check.fix = "use another model file";
  }
  return check;
}

}  // namespace

std::vector<Check> examine(const Config& config) {
  return {check_cpu(),  check_cores(config), check_memory(),     check_huge_pages(),
          check_disk(), check_open_files(),  check_model(config)};
}

}  // namespace lineshaft::app
