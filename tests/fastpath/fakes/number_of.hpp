#pragma once
// Return values of the functions of fakes/every.cpp.

/// Returns a different number for each name. It is positive and larger than any ncclResult_t.
constexpr int number_of(const char* name) {
  unsigned hash = 2166136261u;
  for (; *name; ++name) hash = (hash ^ static_cast<unsigned char>(*name)) * 16777619u;
  return static_cast<int>(hash >> 1 | 0x10000u);
}
