#pragma once
// What stands behind a function of NCCL's that is handed over as it is.
#include <atomic>

namespace busbw::fastpath {

/// A function of NCCL's.
struct Export {
  const char* name;
  const char* since;  // the first version that has it, "2.27.3"
};

/// Where a call of this function goes. The real library's function is written into `target`, where later calls find it.
/// What that library lacks fails with ncclInvalidUsage, and is said on stderr once; while there is no real library at
/// all, calls fail with ncclSystemError. Functions that return no ncclResult_t return a text or nothing instead.
void* resolve_export(const Export& function, std::atomic<void*>& target) noexcept;

}  // namespace busbw::fastpath
