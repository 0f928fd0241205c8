#pragma once
// Attribute of the NCCL functions that this library defines and exports. own.txt lists them.

#define FASTPATH_EXPORT extern "C" __attribute__((visibility("default")))
