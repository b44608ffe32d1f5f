// Any bytes as a GGUF file: parse, look everything up, read every byte that the reader vouches for.
// Built with libFuzzer as gguf_fuzz; with main below as a replayer (and maker) of the seeds.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "model/gguf.h"
#include "model/spec_loader.h"
#include "model/weights.h"

namespace lineshaft::model {
namespace {

// Read in a way that no optimiser drops.
volatile uint64_t sink;

void look_up_all(const GgufFile& file) {
  for (const auto& entry : file.entries()) {
    uint64_t sum = 0;
    if (const auto strings = file.strings(entry.key); strings.ok()) {
      for (const auto text : *strings) {
        for (const char c : text) sum += static_cast<unsigned char>(c);
      }
    }
    sum += file.integers(entry.key).ok() + file.floats(entry.key).ok() +
           file.integer(entry.key).ok() + file.real(entry.key).ok() +
           file.boolean(entry.key).ok() + file.string(entry.key).ok();
    sink = sum + printable(entry.key).size() + type_name(entry).size();
  }
  for (const auto& tensor : file.tensors()) {
    uint64_t sum = 0;
    for (const std::byte b : file.data(tensor)) sum += static_cast<uint64_t>(b);
    sink = sum;
  }
}

}  // namespace

void try_bytes(const uint8_t* data, size_t size) {
  const auto file = GgufFile::parse(std::as_bytes(std::span(data, size)), "fuzz.gguf");
  if (!file.ok()) {
    if (message_of(file.status()).empty()) std::abort();
    return;
  }
  look_up_all(**file);
  const auto spec = load_spec(**file);
  if (spec.ok()) {
    const auto tensors = bind_tensors(**file, *spec);
    if (tensors.ok()) sink = static_cast<uint64_t>(packed_bytes(*tensors));
  }
  sink = load_tokenizer_data(**file).ok();
}

}  // namespace lineshaft::model

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lineshaft::model::try_bytes(data, size);
  return 0;
}
