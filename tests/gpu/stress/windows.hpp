#pragma once
// NCCL's functions for symmetric windows, found by name, so that the program also starts with an older NCCL.
#include <nccl.h>

#include <cstddef>

namespace stress {

struct Windows {
  ncclResult_t (*allocate)(void**, std::size_t) = nullptr;
  ncclResult_t (*make)(ncclComm_t, void*, std::size_t, ncclWindow_t*, int) = nullptr;
  ncclResult_t (*end)(ncclComm_t, ncclWindow_t) = nullptr;
};

/// Returns the functions. Ends the process with code 3 if this NCCL lacks them.
Windows find_windows();

}  // namespace stress
