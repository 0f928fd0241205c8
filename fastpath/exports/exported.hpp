#pragma once
// Attribute of the NCCL functions that this library, libbusbw_nccl.so, defines and exports. For all other functions of
// forward/symbols.txt, it exports trampolines to the real library.
//
// The real library calls some of these functions by name. With LD_PRELOAD such calls reach this library: ncclBcast
// calls ncclBroadcast, ncclCommInitAll of older versions calls ncclGroupStart and ncclGroupEnd, and several functions
// call ncclCommGetAsyncError. So an exported function must also be correct if a call of the real library is in progress
// on the same thread.

/// Attribute. Must be the first word of the line that contains the function's name, because forward/exports.cmake reads
/// from these lines which functions need no trampoline. Lines that begin with extern "C" count too.
#define FASTPATH_EXPORT extern "C" __attribute__((visibility("default")))
