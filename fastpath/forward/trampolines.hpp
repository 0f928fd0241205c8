#pragma once
// Finds the jump targets of trampolines: the exported NCCL functions that this library forwards unchanged to the real
// library (trampolines.cpp).
#include <atomic>

namespace busbw::fastpath {

/// A function that NCCL exports.
struct Export {
  const char* name;
  const char* since;  // first NCCL version with this function, such as "2.27.3"
};

/// Returns the address that a call of this function must jump to, and stores it in `target` for later calls. If the
/// real library lacks the function, the address is a stub that returns ncclInvalidUsage, and an error is printed to
/// stderr once. If there is no real library, the stub returns ncclSystemError and `target` stays unchanged. Stubs of
/// functions without an ncclResult_t return a text or zero.
void* resolve_export(const Export& function, std::atomic<void*>& target) noexcept;

}  // namespace busbw::fastpath
