#pragma once
// Attribute of the NCCL functions that this library defines and exports. All other functions in forward/symbols.txt are
// trampolines to the real library.
//
// The real library calls some of these functions by name. With LD_PRELOAD such calls reach this library: ncclBcast
// calls ncclBroadcast, ncclCommInitAll of older versions calls ncclGroupStart and ncclGroupEnd, and several functions
// call ncclCommGetAsyncError.

/// Begins the line with the function's name, from which CMake gets the list of these functions.
#define FASTPATH_EXPORT extern "C" __attribute__((visibility("default")))
