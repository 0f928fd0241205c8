// Tables of the element types and operators, and lookup by name.
#include "common/values/types.hpp"

#include <algorithm>
#include <utility>

namespace busbw {
namespace {

struct DtypeFacts {
  std::string_view name;
  std::size_t size_bytes;
};

constexpr std::array<DtypeFacts, kDtypes.size()> kDtypeFacts{{
    {"int8", 1},
    {"uint8", 1},
    {"int32", 4},
    {"uint32", 4},
    {"int64", 8},
    {"uint64", 8},
    {"half", 2},
    {"float", 4},
    {"double", 8},
    {"bfloat16", 2},
    {"f8e4m3", 1},
    {"f8e5m2", 1},
}};
constexpr std::array<std::string_view, kRedops.size()> kRedopNames{"sum", "prod", "max", "min", "avg", "mulsum"};

const DtypeFacts& facts(Dtype type) { return kDtypeFacts[static_cast<std::size_t>(type)]; }

template <class Values>
auto find_by_name(const Values& values, std::string_view wanted_name) -> std::optional<typename Values::value_type> {
  const auto match = std::ranges::find_if(values, [&](auto value) { return name(value) == wanted_name; });
  if (match == values.end()) return std::nullopt;
  return *match;
}

}  // namespace

std::string_view name(Dtype type) { return facts(type).name; }
std::string_view name(Redop op) { return kRedopNames[static_cast<std::size_t>(op)]; }
std::string_view name(Placement placement) { return placement == Placement::in_place ? "in_place" : "out_of_place"; }

std::optional<Dtype> dtype_of(std::string_view name) { return find_by_name(kDtypes, name); }
std::optional<Redop> redop_of(std::string_view name) { return find_by_name(kRedops, name); }

std::size_t size_bytes(Dtype type) { return facts(type).size_bytes; }

}  // namespace busbw
