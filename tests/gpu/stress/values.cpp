#include "values.hpp"

#include <algorithm>
#include <cstring>

namespace stress {
namespace {

int value(ncclDataType_t type, ncclRedOp_t op, std::uint32_t salt, int rank, int ranks, std::size_t i) {
  std::uint32_t x =
      salt * 2654435761u + static_cast<std::uint32_t>(rank) * 40503u + static_cast<std::uint32_t>(i) * 97u;
  x ^= x >> 15;
  x *= 2246822519u;
  x ^= x >> 13;
  if (op == ncclProd) return x % 3 == 0 ? -1 : x % 3 == 1 || ranks > 4 ? 1 : 2;
  if (op == ncclAvg && (type == ncclInt8 || type == ncclInt32)) return static_cast<int>(x % 11);
  return static_cast<int>(x % 11) - 5;
}

/// Conversion of values that a half or a bfloat16 represents exactly.
void put(char* to, ncclDataType_t type, double value) {
  const auto single = static_cast<float>(value);
  std::uint32_t bits;
  std::memcpy(&bits, &single, 4);
  switch (type) {
    case ncclFloat16: {
      const std::uint32_t sign = bits >> 16 & 0x8000u;
      const std::uint16_t half =
          value == 0 ? sign : sign | (((bits >> 23 & 0xff) - 127 + 15) << 10) | (bits >> 13 & 0x3ff);
      std::memcpy(to, &half, 2);
      return;
    }
    case ncclBfloat16: {
      const auto upper = static_cast<std::uint16_t>(bits >> 16);
      std::memcpy(to, &upper, 2);
      return;
    }
    case ncclFloat32: std::memcpy(to, &single, 4); return;
    case ncclFloat64: std::memcpy(to, &value, 8); return;
    case ncclInt32: {
      const auto whole = static_cast<std::int32_t>(value);
      std::memcpy(to, &whole, 4);
      return;
    }
    default: *to = static_cast<char>(static_cast<int>(value));
  }
}

}  // namespace

const char* name(Kind kind) {
  constexpr const char* names[] = {"all_reduce", "all_gather", "reduce_scatter",
                                   "broadcast",  "alltoall",   "send and recv"};
  return names[static_cast<int>(kind)];
}

std::size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclFloat32:
    case ncclInt32: return 4;
    case ncclFloat64: return 8;
    default: return 1;
  }
}

const char* name(ncclDataType_t type) {
  switch (type) {
    case ncclFloat16: return "half";
    case ncclBfloat16: return "bfloat16";
    case ncclFloat32: return "float";
    case ncclInt32: return "int32";
    case ncclFloat64: return "double";
    default: return "int8";
  }
}

const char* name(ncclRedOp_t op) {
  switch (op) {
    case ncclSum: return "sum";
    case ncclProd: return "prod";
    case ncclMin: return "min";
    case ncclMax: return "max";
    default: return "avg";
  }
}

std::vector<char> inputs(ncclDataType_t type, ncclRedOp_t op, std::uint32_t salt, int rank, int ranks) {
  const std::size_t size = bytes_of(type);
  std::vector<char> period(kPeriod * size);
  for (std::size_t i = 0; i < kPeriod; ++i) put(&period[i * size], type, value(type, op, salt, rank, ranks, i));
  return period;
}

std::vector<char> reduced(ncclDataType_t type, ncclRedOp_t op, std::uint32_t salt, const std::vector<int>& ranks,
                          double factor) {
  const std::size_t size = bytes_of(type);
  const int n = static_cast<int>(ranks.size());
  std::vector<char> period(kPeriod * size);
  for (std::size_t i = 0; i < kPeriod; ++i) {
    double all = value(type, op, salt, ranks[0], n, i);
    for (int r = 1; r < n; ++r) {
      const double one = value(type, op, salt, ranks[static_cast<std::size_t>(r)], n, i);
      all = op == ncclProd  ? all * one
            : op == ncclMin ? std::min(all, one)
            : op == ncclMax ? std::max(all, one)
                            : all + one;
    }
    if (op == ncclAvg) all /= n;
    put(&period[i * size], type, all * factor);
  }
  return period;
}

void tile(char* to, const std::vector<char>& period, std::size_t element_bytes, std::size_t from, std::size_t count) {
  std::size_t left = count * element_bytes;
  std::size_t at = from % kPeriod * element_bytes;
  while (left > 0) {
    const std::size_t now = std::min(left, period.size() - at);
    std::memcpy(to, &period[at], now);
    to += now;
    left -= now;
    at = 0;
  }
}

}  // namespace stress
