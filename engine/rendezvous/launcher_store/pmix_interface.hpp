#pragma once
// The part of PMIx's binary interface that is used here. It is equal in versions 3, 4 and 5 of the library (pmix.h and
// pmix_common.h of OpenPMIx), and so is the file name libpmix.so.2. Names and values are those of PMIx.
#include <cstddef>
#include <cstdint>

namespace busbw::pmix {

using Status = int;
inline constexpr Status kSuccess = 0;

/// pmix_proc_t
struct Process {
  char name_space[256] = {};
  std::uint32_t rank = 0;
};

inline constexpr std::uint16_t kBool = 1;    // PMIX_BOOL
inline constexpr std::uint16_t kString = 3;  // PMIX_STRING
/// pmix_value_t. Its union has further members of at most 24 bytes.
struct Value {
  std::uint16_t type = 0;
  union {
    bool flag;
    char* text;
    std::byte bytes[24] = {};
  };
};

/// pmix_info_t: an option of a function.
struct Info {
  char key[512] = {};
  std::uint32_t flags = 0;
  Value value;
};
static_assert(sizeof(Process) == 260 && sizeof(Value) == 32 && sizeof(Info) == 552);

inline constexpr std::uint8_t kGlobal = 3;                      // PMIX_GLOBAL: for processes on all nodes
inline constexpr const char* kCollectData = "pmix.collect";     // PMIX_COLLECT_DATA: a fence distributes all values

using OperationDone = void (*)(Status, void* context);
using ValueFound = void (*)(Status, Value*, void* context);

/// Functions of the library, by their names without the prefix "PMIx_".
struct Functions {
  Status (*Init)(Process*, Info*, std::size_t) = nullptr;
  Status (*Put)(std::uint8_t scope, const char* key, Value*) = nullptr;
  Status (*Commit)() = nullptr;
  Status (*Fence_nb)(const Process*, std::size_t, const Info*, std::size_t, OperationDone, void*) = nullptr;
  Status (*Get_nb)(const Process*, const char* key, const Info*, std::size_t, ValueFound, void*) = nullptr;
  Status (*Finalize)(const Info*, std::size_t) = nullptr;
  const char* (*Error_string)(Status) = nullptr;
};

}  // namespace busbw::pmix
