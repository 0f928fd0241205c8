#pragma once
// Symmetric windows, by name: an NCCL that is older than they are must still start.
#include <nccl.h>

#include <cstddef>

namespace stress {

struct Windows {
  ncclResult_t (*allocate)(void**, std::size_t) = nullptr;
  ncclResult_t (*make)(ncclComm_t, void*, std::size_t, ncclWindow_t*, int) = nullptr;
  ncclResult_t (*end)(ncclComm_t, ncclWindow_t) = nullptr;
};

/// Ends the process with code 3 where this NCCL has none.
Windows find_windows();

}  // namespace stress
