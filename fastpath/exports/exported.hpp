#pragma once
// Attribute of the NCCL functions that this library exports.

#define FASTPATH_EXPORT extern "C" __attribute__((visibility("default")))
