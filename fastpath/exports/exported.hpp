#pragma once
// A function of NCCL's that programs find in this library.

#define FASTPATH_EXPORT extern "C" __attribute__((visibility("default")))
