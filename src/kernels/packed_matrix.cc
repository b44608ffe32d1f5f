#include "kernels/packed_matrix.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "base/check.h"
#include "kernels/formats/blocks.h"

namespace lineshaft::kernels {
namespace {

constexpr int64_t kHugePage = 2 << 20;

constexpr int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// A piece of PackedMemory: large against a page, small against a machine.
constexpr int64_t kPieceBytes = 32 << 20;

// Whole huge pages for what fills one, else plain memory.
std::shared_ptr<std::byte[]> allocate(int64_t bytes) {
  const int64_t unit = bytes < kHugePage ? 64 : kHugePage;
  const auto size = static_cast<size_t>(round_up(bytes, unit));
  auto* data = static_cast<std::byte*>(std::aligned_alloc(static_cast<size_t>(unit), size));
  if (data == nullptr) throw std::bad_alloc();
  // Only advice: its failure changes no result.
  if (unit == kHugePage) madvise(data, size, MADV_HUGEPAGE);
  return {data, [](std::byte* p) { std::free(p); }};
}

int64_t tile_bytes_of(WeightType type, int64_t k) {
  const PackedLayout layout = packed_layout(type);
  return round_up(packed_quant_bytes(layout, k) + packed_scale_bytes(layout, k), 64);
}

// Where one output's data goes in a tile.
struct Lane {
  std::byte* quants;
  std::byte* scales;
  int index;
};

void pack_plain(int element_bytes, const std::byte* row, int64_t k, Lane lane) {
  for (int64_t i = 0; i < k; ++i) {
    std::memcpy(lane.quants + (i * kTileOutputs + lane.index) * element_bytes,
                row + i * element_bytes, static_cast<size_t>(element_bytes));
  }
}

uint32_t four(const uint8_t* q) {
  uint32_t value;
  std::memcpy(&value, q, 4);
  return value;
}
void put_four(uint32_t value, std::byte* to) { std::memcpy(to, &value, 4); }

// Spreads the 32 quants of one output over its bytes of the quants region.
void pack_quants(int bits, const uint8_t* q, std::byte* to, int lane) {
  std::byte* bytes = to + 4 * lane;
  if (bits == 8) {
    for (int g = 0; g < 8; ++g) std::memcpy(bytes + 64 * g, q + 4 * g, 4);
    return;
  }
  // Four quants at a time, a byte each: none reaches into its neighbour's byte.
  for (int j = 0; j < 4; ++j) {
    const uint32_t low = four(q + 8 * j) & 0x0f0f0f0fu;
    const uint32_t high = four(q + 8 * j + 4) & 0x0f0f0f0fu;
    put_four(low | high << 4, bytes + 64 * j);
  }
  if (bits == 5) {
    uint32_t all = 0;
    for (int g = 0; g < 8; ++g) all |= (four(q + 4 * g) >> 4 & 0x01010101u) << g;
    put_four(all, bytes + 256);
  }
  for (int half = 0; bits == 6 && half < 2; ++half) {
    uint32_t all = 0;
    for (int g = 0; g < 4; ++g) {
      all |= (four(q + 16 * half + 4 * g) >> 4 & 0x03030303u) << (2 * g);
    }
    put_four(all, bytes + 256 + 64 * half);
  }
}

// Moves a block's f16 d and min to the head of its scales.
void pack_head(WeightType type, const std::byte* block, std::byte* to, int lane) {
  std::memcpy(to + 2 * lane, block + block_d_offset(type), 2);
  if (block_has_min(type)) {
    std::memcpy(to + 32 + 2 * lane, block + block_min_offset(type), 2);
  }
}

void pack_quantised(WeightType type, const std::byte* row, int64_t k, Lane lane) {
  const PackedLayout layout = packed_layout(type);
  const WeightTypeInfo& format = info(type);
  const int parts = format.block_elements / 32;
  const int head = scale_head_bytes(layout);
  std::byte* quants = lane.quants;
  std::byte* scales = lane.scales;
  for (int64_t b = 0; b < k / format.block_elements; ++b) {
    const std::byte* block = row + b * format.block_bytes;
    pack_head(type, block, scales, lane.index);
    scales += head;
    for (int part = 0; part < parts; ++part) {
      uint8_t q[32];
      block_quants(type, block, part, q);
      pack_quants(layout.bits, q, quants, lane.index);
      quants += layout.quant_bytes;
      if (!layout.is_k) continue;
      const SubScales sub = block_sub_scales(type, block, part);
      scales[lane.index] = static_cast<std::byte>(sub.first);
      scales[kTileOutputs + lane.index] =
          static_cast<std::byte>(layout.has_min ? sub.min : sub.second);
      scales += kSubScaleBytes;
    }
  }
}

}  // namespace

std::shared_ptr<std::byte[]> PackedMemory::take(int64_t bytes) {
  const int64_t size = round_up(bytes, 64);
  if (size > kPieceBytes / 4) return allocate(size);
  if (piece_ == nullptr || used_ + size > kPieceBytes) {
    piece_ = allocate(kPieceBytes);
    used_ = 0;
  }
  std::byte* begin = piece_.get() + used_;
  used_ += size;
  return {piece_, begin};
}

int64_t PackedMatrix::bytes_of(WeightType type, int64_t outputs, int64_t k) {
  return round_up(outputs, kTileOutputs) / kTileOutputs * tile_bytes_of(type, k);
}

PackedMatrix::PackedMatrix(WeightType type, int64_t outputs, int64_t k, PackedMemory& memory)
    : type_(type), outputs_(outputs), k_(k), tile_bytes_(tile_bytes_of(type, k)) {
  LS_CHECK(outputs > 0 && k > 0 && k % info(type).block_elements == 0, "{} x {}", outputs, k);
  data_ = memory.take(bytes());
}

PackedMatrix::PackedMatrix(WeightType type, int64_t outputs, int64_t k)
    : type_(type), outputs_(outputs), k_(k), tile_bytes_(tile_bytes_of(type, k)) {
  LS_CHECK(outputs > 0 && k > 0 && k % info(type).block_elements == 0, "{} x {}", outputs, k);
  data_ = allocate(bytes());
}

PackedView PackedMatrix::view() const {
  return {type_, outputs_, k_, tile_bytes_, reinterpret_cast<const unsigned char*>(data_.get())};
}

std::span<const std::byte> PackedMatrix::bytes_view() const {
  return {data_.get(), static_cast<size_t>(bytes())};
}

std::span<std::byte> PackedMatrix::mutable_bytes() {
  return {data_.get(), static_cast<size_t>(bytes())};
}

void PackedMatrix::pack_tiles(std::span<const std::byte> rows, Range tiles) {
  const WeightTypeInfo& format = info(type_);
  const int64_t row_bytes = k_ / format.block_elements * format.block_bytes;
  LS_CHECK(static_cast<int64_t>(rows.size()) == outputs_ * row_bytes);
  const int64_t quant_bytes = packed_quant_bytes(packed_layout(type_), k_);
  for (int64_t t = tiles.begin; t < tiles.end; ++t) {
    std::byte* to = data_.get() + t * tile_bytes_;
    const int64_t first = t * kTileOutputs;
    if (first + kTileOutputs > outputs_) std::memset(to, 0, static_cast<size_t>(tile_bytes_));
    for (int lane = 0; lane < kTileOutputs && first + lane < outputs_; ++lane) {
      const std::byte* row = rows.data() + (first + lane) * row_bytes;
      const Lane at{to, to + quant_bytes, lane};
      if (format.quantised) {
        pack_quantised(type_, row, k_, at);
      } else {
        pack_plain(format.block_bytes, row, k_, at);
      }
    }
  }
}

}  // namespace lineshaft::kernels
