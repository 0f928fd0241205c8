#pragma once
// Lookup cache of one thread, keyed by address. CommunicatorRegistry::find() uses it to avoid a lock in every call.
#include <array>
#include <cstddef>
#include <cstdint>

namespace busbw::fastpath {

/// Hash table of values by address. It stores everything inside the object and needs no destructor, so a thread can use
/// it while its other thread-local objects are being destroyed.
template <class Value>
class PointerCache {
 public:
  static constexpr std::size_t kMaxEntries = 64;

  /// Returns the value of a key. Null if the key is unknown.
  const Value* find(const void* key) const noexcept {
    std::size_t slot = home_slot(key);
    while (entries_[slot].key != nullptr && entries_[slot].key != key) slot = (slot + 1) % kSlots;
    return entries_[slot].key == nullptr ? nullptr : &entries_[slot].value;
  }

  /// Adds a value. `key` must be unknown and not null. If the cache is full, all other entries are removed first.
  void insert(const void* key, Value value) noexcept {
    if (count_ == kMaxEntries) clear();
    std::size_t slot = home_slot(key);
    while (entries_[slot].key != nullptr) slot = (slot + 1) % kSlots;
    entries_[slot] = {key, value};
    ++count_;
  }

  void clear() noexcept {
    entries_ = {};
    count_ = 0;
  }

 private:
  static constexpr int kHashBits = 7;
  /// At least half of the slots stay empty, so that searches are short.
  static constexpr std::size_t kSlots = std::size_t{1} << kHashBits;
  static_assert(kMaxEntries * 2 == kSlots);

  struct CacheEntry {
    const void* key = nullptr;
    Value value{};
  };

  /// Returns the first slot of a key by Fibonacci hashing: the factor is 2^64 divided by the golden ratio, which
  /// spreads addresses at equal distances.
  static std::size_t home_slot(const void* key) noexcept {
    return (reinterpret_cast<std::uintptr_t>(key) * std::uint64_t{0x9E3779B97F4A7C15}) >> (64 - kHashBits);
  }

  std::array<CacheEntry, kSlots> entries_{};
  std::size_t count_ = 0;
};

}  // namespace busbw::fastpath
