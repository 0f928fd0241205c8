#pragma once
// NCCL's functions for the calls of a communicator's life. This code compiles without NCCL's header.
#include <functional>
#include <string>

#include "backends/communicator_lifecycle.hpp"

namespace busbw {

/// Returns the name of the function for a call. Empty for a rendezvous, because NCCL has no function for it.
/// `has_several_roots`: init is named ncclCommInitRankScalable, the function for several roots.
std::string nccl_lifecycle_function(CreationKind kind, LifecycleCall call, bool has_several_roots);

/// Returns the reason why comm_ops leaves a call out. If the library lacks the call, the reason has a remedy: "NCCL
/// 2.26.2 (/usr/lib/libnccl.so.2) has no ncclCommShrink; use NCCL 2.27 or later". Empty if the call is made.
/// `library_text`: version and path. `has_function`: true if the library has the function with this name.
std::string missing_nccl_lifecycle_call(CreationKind kind, LifecycleCall call, const std::string& library_text,
                                        const std::function<bool(const char*)>& has_function);

}  // namespace busbw
