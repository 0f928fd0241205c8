#pragma once
// What a thread has asked for before, found again without a lock.
#include <array>
#include <cstddef>
#include <cstdint>

namespace busbw::fastpath {

/// Values by address. All of it lies in the object, and nothing ends with it: a thread may ask to its very end, when
/// what it has made otherwise is gone.
template <class Value>
class PointerCache {
 public:
  static constexpr std::size_t kMax = 64;

  /// Null where it is not known.
  const Value* find(const void* key) const noexcept {
    std::size_t at = home_slot(key);
    while (places_[at].key != nullptr && places_[at].key != key) at = (at + 1) % kPlaces;
    return places_[at].key == nullptr ? nullptr : &places_[at].value;
  }

  /// `key` is not null and not known. With too many all others are forgotten.
  void insert(const void* key, Value value) noexcept {
    if (count_ == kMax) clear();
    std::size_t at = home_slot(key);
    while (places_[at].key != nullptr) at = (at + 1) % kPlaces;
    places_[at] = {key, value};
    ++count_;
  }

  void clear() noexcept {
    places_ = {};
    count_ = 0;
  }

 private:
  static constexpr int kDigits = 7;
  static constexpr std::size_t kPlaces = std::size_t{1}
                                         << kDigits;  // half of them stay empty, so that searches are short
  static_assert(kMax * 2 == kPlaces);

  struct CacheEntry {
    const void* key = nullptr;
    Value value{};
  };

  /// Fibonacci hashing: 2^64 over the golden ratio spreads addresses that have equal steps between them.
  static std::size_t home_slot(const void* key) noexcept {
    return (reinterpret_cast<std::uintptr_t>(key) * std::uint64_t{0x9E3779B97F4A7C15}) >> (64 - kDigits);
  }

  std::array<CacheEntry, kPlaces> places_{};
  std::size_t count_ = 0;
};

}  // namespace busbw::fastpath
