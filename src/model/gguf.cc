#include "model/gguf.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>
#include <system_error>

namespace lineshaft::model {

using kernels::WeightType;

namespace {

constexpr uint64_t kKeyBytesMax = 65'535;         // GGUF specification
constexpr uint64_t kTensorNameBytesMax = 255;     // the specification says 64; be generous
constexpr uint64_t kAlignmentDefault = 32;        // GGUF specification
constexpr uint64_t kAlignmentMax = 1 << 20;
constexpr uint64_t kEntryBytesMin = 8 + 4 + 1;    // key length, type, one byte of value
constexpr uint64_t kTensorBytesMin = 8 + 4 + 8 + 4 + 8;

// Bytes of a scalar; 0 for strings and arrays.
uint64_t scalar_bytes(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool: return 1;
    case GgufType::kU16:
    case GgufType::kI16: return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32: return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64: return 8;
    case GgufType::kString:
    case GgufType::kArray: return 0;
  }
  return 0;
}

std::string_view scalar_name(GgufType type) {
  constexpr std::string_view kNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                         "bool", "string", "array", "u64", "i64", "f64"};
  return kNames[static_cast<uint32_t>(type)];
}

// Names of ggml_type numbers, so that a refusal can say what the file holds.
std::string ggml_type_name(uint32_t id) {
  constexpr std::string_view kNames[] = {
      "F32",     "F16",    "Q4_0",    "Q4_1",     "Q4_2",     "Q4_3",     "Q5_0",   "Q5_1",
      "Q8_0",    "Q8_1",   "Q2_K",    "Q3_K",     "Q4_K",     "Q5_K",     "Q6_K",   "Q8_K",
      "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S",    "IQ4_NL",   "IQ3_S",    "IQ2_S",  "IQ4_XS",
      "I8",      "I16",    "I32",     "I64",      "F64",      "IQ1_M",    "BF16",   "Q4_0_4_4",
      "Q4_0_4_8", "Q4_0_8_8", "TQ1_0", "TQ2_0",   "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8",
      "MXFP4"};
  if (id < std::size(kNames)) return std::string(kNames[id]);
  return fmt::format("number {}", id);
}

std::optional<WeightType> weight_type(uint32_t gguf_id) {
  for (int i = 0; i < kernels::kWeightTypeCount; ++i) {
    const auto type = static_cast<WeightType>(i);
    if (kernels::info(type).gguf_id == gguf_id) return type;
  }
  return std::nullopt;
}

template <typename T>
T load(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

// One integer of the given type; nullopt: not an integer type, or beyond int64.
std::optional<int64_t> load_integer(GgufType type, const std::byte* p) {
  switch (type) {
    case GgufType::kU8: return load<uint8_t>(p);
    case GgufType::kI8: return load<int8_t>(p);
    case GgufType::kU16: return load<uint16_t>(p);
    case GgufType::kI16: return load<int16_t>(p);
    case GgufType::kU32: return load<uint32_t>(p);
    case GgufType::kI32: return load<int32_t>(p);
    case GgufType::kI64: return load<int64_t>(p);
    case GgufType::kU64: {
      const auto v = load<uint64_t>(p);
      if (v > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
      return static_cast<int64_t>(v);
    }
    default: return std::nullopt;
  }
}

}  // namespace

// Walks the file; every read is checked against what is left.
class GgufReader {
 public:
  GgufReader(std::span<const std::byte> bytes, const std::string& name)
      : bytes_(bytes), name_(name) {}

  uint64_t position() const { return position_; }
  uint64_t left() const { return bytes_.size() - position_; }
  void set_subject(std::string subject) { subject_ = std::move(subject); }
  const std::string& subject() const { return subject_; }

  Status need(uint64_t bytes) const {
    if (bytes <= left()) return ok_status();
    return fail(fmt::format("needs {} bytes here, but the file ends at byte {}", bytes,
                            bytes_.size()));
  }

  Status fail(std::string_view what) const {
    return data_loss("{}: byte {}: {}: {}", name_, position_, subject_, what);
  }

  template <typename T>
  Status read(T& out) {
    LS_RETURN_IF_ERROR(need(sizeof out));
    out = load<T>(bytes_.data() + position_);
    position_ += sizeof out;
    return ok_status();
  }

  Status read_span(uint64_t bytes, std::span<const std::byte>& out) {
    LS_RETURN_IF_ERROR(need(bytes));
    out = bytes_.subspan(position_, bytes);
    position_ += bytes;
    return ok_status();
  }

  Status read_string(uint64_t bytes_max, std::string_view& out) {
    uint64_t length = 0;
    LS_RETURN_IF_ERROR(read(length));
    if (length > left()) {
      return fail(fmt::format("a string of {} bytes does not fit the {} bytes that are left",
                              length, left()));
    }
    if (length > bytes_max) {
      return fail(fmt::format("a name of {} bytes is longer than {}", length, bytes_max));
    }
    std::span<const std::byte> span;
    LS_RETURN_IF_ERROR(read_span(length, span));
    out = {reinterpret_cast<const char*>(span.data()), span.size()};
    return ok_status();
  }

  Status read_type(GgufType& out) {
    uint32_t id = 0;
    LS_RETURN_IF_ERROR(read(id));
    if (id > static_cast<uint32_t>(GgufType::kF64)) {
      return fail(fmt::format("value type {} does not exist", id));
    }
    out = static_cast<GgufType>(id);
    return ok_status();
  }

  // The elements of an array of strings are walked so that later readers need no checks.
  Status skip_strings(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      std::string_view ignored;
      LS_RETURN_IF_ERROR(read_string(std::numeric_limits<uint64_t>::max(), ignored));
    }
    return ok_status();
  }

  Status read_array(GgufEntry& entry) {
    LS_RETURN_IF_ERROR(read_type(entry.element));
    if (entry.element == GgufType::kArray) return fail("arrays of arrays are not supported");
    LS_RETURN_IF_ERROR(read(entry.count));
    const uint64_t element_bytes =
        entry.element == GgufType::kString ? sizeof(uint64_t) : scalar_bytes(entry.element);
    if (entry.count > left() / element_bytes) {
      return fail(fmt::format("an array of {} elements does not fit the {} bytes that are left",
                              entry.count, left()));
    }
    if (entry.element != GgufType::kString) {
      return read_span(entry.count * element_bytes, entry.bytes);
    }
    const uint64_t begin = position_;
    LS_RETURN_IF_ERROR(skip_strings(entry.count));
    entry.bytes = bytes_.subspan(begin, position_ - begin);
    return ok_status();
  }

  Status read_value(GgufEntry& entry) {
    LS_RETURN_IF_ERROR(read_type(entry.type));
    if (entry.type == GgufType::kArray) return read_array(entry);
    if (entry.type == GgufType::kString) {
      std::string_view text;
      LS_RETURN_IF_ERROR(read_string(std::numeric_limits<uint64_t>::max(), text));
      entry.bytes = std::as_bytes(std::span(text.data(), text.size()));
      return ok_status();
    }
    LS_RETURN_IF_ERROR(read_span(scalar_bytes(entry.type), entry.bytes));
    if (entry.type == GgufType::kBool && load<uint8_t>(entry.bytes.data()) > 1) {
      return fail("a boolean is neither 0 nor 1");
    }
    return ok_status();
  }

 private:
  std::span<const std::byte> bytes_;
  const std::string& name_;
  uint64_t position_ = 0;
  std::string subject_ = "header";
};

std::string type_name(const GgufEntry& entry) {
  if (entry.type != GgufType::kArray) return std::string(scalar_name(entry.type));
  return fmt::format("array of {}", scalar_name(entry.element));
}

std::string printable(std::string_view text) {
  constexpr size_t kBytesMax = 100;
  std::string out;
  for (const char c : text.substr(0, kBytesMax)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", byte);
    }
  }
  if (text.size() > kBytesMax) out += "...";
  return out;
}

StatusOr<std::shared_ptr<const GgufFile>> GgufFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const int error = errno;
    const auto reason = std::generic_category().message(error);
    if (error == ENOENT) return not_found("{}: {}", path, reason);
    return unavailable("{}: {}", path, reason);
  }
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    return invalid_argument("{}: not a regular file", path);
  }
  if (info.st_size == 0) {
    ::close(fd);
    return data_loss("{}: the file is empty", path);
  }
  const auto size = static_cast<size_t>(info.st_size);
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  const int error = errno;
  ::close(fd);
  if (memory == MAP_FAILED) {
    return unavailable("{}: mmap of {} bytes: {}", path, size,
                       std::generic_category().message(error));
  }
  std::shared_ptr<GgufFile> file(new GgufFile);
  file->name_ = path;
  file->mapped_ = true;
  file->bytes_ = {static_cast<const std::byte*>(memory), size};
  LS_RETURN_IF_ERROR(file->read_all());
  return std::shared_ptr<const GgufFile>(std::move(file));
}

StatusOr<std::shared_ptr<const GgufFile>> GgufFile::parse(std::span<const std::byte> bytes,
                                                          std::string name) {
  std::shared_ptr<GgufFile> file(new GgufFile);
  file->name_ = std::move(name);
  file->bytes_ = bytes;
  LS_RETURN_IF_ERROR(file->read_all());
  return std::shared_ptr<const GgufFile>(std::move(file));
}

GgufFile::~GgufFile() {
  if (mapped_) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

Status GgufFile::read_all() {
  GgufReader reader(bytes_, name_);
  std::span<const std::byte> magic;
  LS_RETURN_IF_ERROR(reader.read_span(4, magic));
  if (std::memcmp(magic.data(), "GGUF", 4) != 0) {
    return data_loss("{}: byte 0: not a GGUF file (the first bytes are '{}')", name_,
                     printable({reinterpret_cast<const char*>(magic.data()), 4}));
  }
  LS_RETURN_IF_ERROR(reader.read(version_));
  if (version_ != 0 && (version_ & 0xffffu) == 0) {
    return unimplemented("{}: byte 4: big-endian GGUF files are not supported", name_);
  }
  if (version_ != 2 && version_ != 3) {
    return unimplemented("{}: byte 4: GGUF version {} is not supported (2 and 3 are)", name_,
                         version_);
  }
  uint64_t tensor_count = 0;
  uint64_t entry_count = 0;
  LS_RETURN_IF_ERROR(reader.read(tensor_count));
  LS_RETURN_IF_ERROR(reader.read(entry_count));
  if (entry_count > reader.left() / kEntryBytesMin) {
    return reader.fail(fmt::format("{} metadata entries do not fit the {} bytes that are left",
                                   entry_count, reader.left()));
  }
  if (tensor_count > reader.left() / kTensorBytesMin) {
    return reader.fail(fmt::format("{} tensors do not fit the {} bytes that are left",
                                   tensor_count, reader.left()));
  }
  LS_RETURN_IF_ERROR(read_entries(reader, entry_count));
  uint64_t alignment = kAlignmentDefault;
  if (find("general.alignment") != nullptr) {
    LS_ASSIGN_OR_RETURN(const int64_t value, integer("general.alignment", 8, kAlignmentMax));
    alignment = static_cast<uint64_t>(value);
    if ((alignment & (alignment - 1)) != 0) {
      return data_loss("{}: key 'general.alignment': {} is not a power of two", name_, alignment);
    }
  }
  LS_RETURN_IF_ERROR(read_tensors(reader, tensor_count));
  const uint64_t data_start = (reader.position() + alignment - 1) & ~(alignment - 1);
  return place_tensors(data_start, alignment);
}

Status GgufFile::read_entries(GgufReader& reader, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    GgufEntry entry;
    reader.set_subject(fmt::format("metadata entry {}", i));
    LS_RETURN_IF_ERROR(reader.read_string(kKeyBytesMax, entry.key));
    reader.set_subject(fmt::format("key '{}'", printable(entry.key)));
    LS_RETURN_IF_ERROR(reader.read_value(entry));
    entries_.push_back(entry);
  }
  entries_by_key_.resize(entries_.size());
  std::iota(entries_by_key_.begin(), entries_by_key_.end(), 0u);
  std::ranges::sort(entries_by_key_, {}, [&](uint32_t i) { return entries_[i].key; });
  for (size_t i = 1; i < entries_by_key_.size(); ++i) {
    const auto key = entries_[entries_by_key_[i]].key;
    if (key == entries_[entries_by_key_[i - 1]].key) {
      return data_loss("{}: key '{}' is there twice", name_, printable(key));
    }
  }
  return ok_status();
}

Status GgufFile::read_tensors(GgufReader& reader, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    GgufTensor tensor;
    reader.set_subject(fmt::format("tensor {}", i));
    LS_RETURN_IF_ERROR(reader.read_string(kTensorNameBytesMax, tensor.name));
    reader.set_subject(fmt::format("tensor '{}'", printable(tensor.name)));
    uint32_t dim_count = 0;
    LS_RETURN_IF_ERROR(reader.read(dim_count));
    if (dim_count < 1 || dim_count > tensor.dims.size()) {
      return reader.fail(fmt::format("{} dimensions (1 to 4 are possible)", dim_count));
    }
    tensor.dim_count = static_cast<int32_t>(dim_count);
    int64_t elements = 1;
    for (uint32_t d = 0; d < dim_count; ++d) {
      uint64_t dim = 0;
      LS_RETURN_IF_ERROR(reader.read(dim));
      // 2^48 elements are more than any address space holds; keeps all later products in int64.
      if (dim == 0 || dim > (uint64_t{1} << 48) ||
          __builtin_mul_overflow(elements, static_cast<int64_t>(dim), &elements) ||
          elements > (int64_t{1} << 48)) {
        return reader.fail(fmt::format("dimension {} is {}, an impossible size", d, dim));
      }
      tensor.dims[d] = static_cast<int64_t>(dim);
    }
    uint32_t type_id = 0;
    LS_RETURN_IF_ERROR(reader.read(type_id));
    const auto type = weight_type(type_id);
    if (!type) {
      return unimplemented("{}: tensor '{}': weight type {} is not supported", name_,
                           printable(tensor.name), ggml_type_name(type_id));
    }
    tensor.type = *type;
    const auto& format = kernels::info(*type);
    if (tensor.dims[0] % format.block_elements != 0) {
      return reader.fail(fmt::format("rows of {} elements are not whole blocks of {} ({})",
                                     tensor.dims[0], format.block_elements, format.name));
    }
    tensor.bytes = static_cast<uint64_t>(elements / format.block_elements) *
                   static_cast<uint64_t>(format.block_bytes);
    LS_RETURN_IF_ERROR(reader.read(tensor.offset));
    tensors_.push_back(tensor);
  }
  tensors_by_name_.resize(tensors_.size());
  std::iota(tensors_by_name_.begin(), tensors_by_name_.end(), 0u);
  std::ranges::sort(tensors_by_name_, {}, [&](uint32_t i) { return tensors_[i].name; });
  for (size_t i = 1; i < tensors_by_name_.size(); ++i) {
    const auto name = tensors_[tensors_by_name_[i]].name;
    if (name == tensors_[tensors_by_name_[i - 1]].name) {
      return data_loss("{}: tensor '{}' is there twice", name_, printable(name));
    }
  }
  return ok_status();
}

Status GgufFile::place_tensors(uint64_t data_start, uint64_t alignment) {
  for (auto& tensor : tensors_) {
    const auto name = printable(tensor.name);
    if (tensor.offset % alignment != 0) {
      return data_loss("{}: tensor '{}': offset {} is not a multiple of the alignment {}", name_,
                       name, tensor.offset, alignment);
    }
    if (data_start > size() || tensor.offset > size() - data_start ||
        tensor.bytes > size() - data_start - tensor.offset) {
      return data_loss(
          "{}: tensor '{}' takes {} bytes from offset {} of the data (which starts at byte {}), "
          "but the file ends at byte {}; is the download incomplete?",
          name_, name, tensor.bytes, tensor.offset, data_start, size());
    }
    tensor.offset += data_start;
  }
  std::vector<const GgufTensor*> by_offset;
  for (const auto& tensor : tensors_) by_offset.push_back(&tensor);
  std::ranges::sort(by_offset, {}, &GgufTensor::offset);
  for (size_t i = 1; i < by_offset.size(); ++i) {
    const auto& before = *by_offset[i - 1];
    if (before.offset + before.bytes > by_offset[i]->offset) {
      return data_loss("{}: tensors '{}' and '{}' overlap at byte {}", name_,
                       printable(before.name), printable(by_offset[i]->name),
                       by_offset[i]->offset);
    }
  }
  return ok_status();
}

const GgufEntry* GgufFile::find(std::string_view key) const {
  const auto it = std::ranges::lower_bound(entries_by_key_, key, {},
                                           [&](uint32_t i) { return entries_[i].key; });
  if (it == entries_by_key_.end() || entries_[*it].key != key) return nullptr;
  return &entries_[*it];
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto it = std::ranges::lower_bound(tensors_by_name_, name, {},
                                           [&](uint32_t i) { return tensors_[i].name; });
  if (it == tensors_by_name_.end() || tensors_[*it].name != name) return nullptr;
  return &tensors_[*it];
}

std::span<const std::byte> GgufFile::data(const GgufTensor& tensor) const {
  return bytes_.subspan(tensor.offset, tensor.bytes);
}

StatusOr<const GgufEntry*> GgufFile::entry(std::string_view key) const {
  const GgufEntry* found = find(key);
  if (found == nullptr) return not_found("{}: key '{}' is missing", name_, key);
  return found;
}

StatusOr<int64_t> GgufFile::integer(std::string_view key, int64_t min, int64_t max) const {
  LS_ASSIGN_OR_RETURN(const GgufEntry* found, entry(key));
  const auto value = load_integer(found->type, found->bytes.data());
  if (!value) {
    return data_loss("{}: key '{}' is {}, expected an integer", name_, key, type_name(*found));
  }
  if (*value < min || *value > max) {
    return data_loss("{}: key '{}' is {}, expected {} to {}", name_, key, *value, min, max);
  }
  return *value;
}

StatusOr<double> GgufFile::real(std::string_view key) const {
  LS_ASSIGN_OR_RETURN(const GgufEntry* found, entry(key));
  double value = 0.0;
  if (found->type == GgufType::kF32) {
    value = load<float>(found->bytes.data());
  } else if (found->type == GgufType::kF64) {
    value = load<double>(found->bytes.data());
  } else {
    return data_loss("{}: key '{}' is {}, expected f32", name_, key, type_name(*found));
  }
  if (!std::isfinite(value)) return data_loss("{}: key '{}' is not a finite number", name_, key);
  return value;
}

StatusOr<bool> GgufFile::boolean(std::string_view key) const {
  LS_ASSIGN_OR_RETURN(const GgufEntry* found, entry(key));
  if (found->type != GgufType::kBool) {
    return data_loss("{}: key '{}' is {}, expected bool", name_, key, type_name(*found));
  }
  return load<uint8_t>(found->bytes.data()) == 1;
}

StatusOr<std::string_view> GgufFile::string(std::string_view key) const {
  LS_ASSIGN_OR_RETURN(const GgufEntry* found, entry(key));
  if (found->type != GgufType::kString) {
    return data_loss("{}: key '{}' is {}, expected string", name_, key, type_name(*found));
  }
  return std::string_view(reinterpret_cast<const char*>(found->bytes.data()),
                          found->bytes.size());
}

StatusOr<std::vector<std::string_view>> GgufFile::strings(std::string_view key) const {
  LS_ASSIGN_OR_RETURN(const GgufEntry* found, entry(key));
  if (found->type != GgufType::kArray || found->element != GgufType::kString) {
    return data_loss("{}: key '{}' is {}, expected array of string", name_, key,
                     type_name(*found));
  }
  std::vector<std::string_view> out;
  out.reserve(found->count);
  const std::byte* p = found->bytes.data();
  for (uint64_t i = 0; i < found->count; ++i) {
    const auto length = load<uint64_t>(p);
    out.emplace_back(reinterpret_cast<const char*>(p + sizeof length), length);
    p += sizeof length + length;
  }
  return out;
}

StatusOr<std::vector<int64_t>> GgufFile::integers(std::string_view key) const {
  LS_ASSIGN_OR_RETURN(const GgufEntry* found, entry(key));
  const auto wrong = [&] {
    return data_loss("{}: key '{}' is {}, expected array of integers", name_, key,
                     type_name(*found));
  };
  if (found->type != GgufType::kArray) return wrong();
  const GgufType element = found->element == GgufType::kBool ? GgufType::kU8 : found->element;
  std::vector<int64_t> out;
  const uint64_t step = scalar_bytes(element);
  if (step == 0) return wrong();
  for (uint64_t i = 0; i < found->count; ++i) {
    const auto value = load_integer(element, found->bytes.data() + i * step);
    if (!value) return wrong();
    out.push_back(*value);
  }
  return out;
}

StatusOr<std::vector<float>> GgufFile::floats(std::string_view key) const {
  LS_ASSIGN_OR_RETURN(const GgufEntry* found, entry(key));
  if (found->type != GgufType::kArray || found->element != GgufType::kF32) {
    return data_loss("{}: key '{}' is {}, expected array of f32", name_, key, type_name(*found));
  }
  std::vector<float> out(found->count);
  if (!out.empty()) std::memcpy(out.data(), found->bytes.data(), found->bytes.size());
  return out;
}

void GgufFile::drop_pages(const GgufTensor& tensor) const {
  if (!mapped_) return;
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t begin = (tensor.offset + page - 1) / page * page;
  const uint64_t end = (tensor.offset + tensor.bytes) / page * page;
  if (begin >= end) return;
  // A hint: failing leaves the pages resident, which is no error.
  ::madvise(const_cast<std::byte*>(bytes_.data()) + begin, end - begin, MADV_DONTNEED);
}

}  // namespace lineshaft::model
