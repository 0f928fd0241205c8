#include "fastpath/communicator/pointer_cache.hpp"

#include <doctest/doctest.h>

#include <type_traits>
#include <vector>

using busbw::fastpath::PointerCache;

namespace {

/// Addresses at equal distances, like allocations of one size.
std::vector<const void*> addresses(std::size_t count, std::size_t step) {
  static char room[1];
  std::vector<const void*> found;
  for (std::size_t i = 0; i < count; ++i)
    found.push_back(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(room) + i * step));
  return found;
}

}  // namespace

TEST_CASE("PointerCache: entries are found for any distance between addresses") {
  for (const std::size_t step : {1u, 8u, 64u, 4096u, 1u << 20, 1u << 25}) {
    PointerCache<std::size_t> remembered;
    const auto keys = addresses(PointerCache<std::size_t>::kMaxEntries, step);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      CHECK(remembered.find(keys[i]) == nullptr);
      remembered.insert(keys[i], i);
    }
    for (std::size_t i = 0; i < keys.size(); ++i) {
      REQUIRE(remembered.find(keys[i]) != nullptr);
      CHECK(*remembered.find(keys[i]) == i);
    }
  }
}

TEST_CASE("PointerCache: a full cache removes its entries and continues") {
  PointerCache<int> remembered;
  const auto keys = addresses(10 * PointerCache<int>::kMaxEntries, 8);
  for (const void* const key : keys) {
    if (remembered.find(key) == nullptr) remembered.insert(key, 1);
    CHECK(remembered.find(key) != nullptr);
  }
  CHECK(remembered.find(keys.front()) == nullptr);
  remembered.clear();
  for (const void* const key : keys) CHECK(remembered.find(key) == nullptr);
}

TEST_CASE("PointerCache: null is unknown, and the cache needs no destructor") {
  PointerCache<int> remembered;
  for (const void* const key : addresses(PointerCache<int>::kMaxEntries, 8)) remembered.insert(key, 1);
  CHECK(remembered.find(nullptr) == nullptr);
  static_assert(std::is_trivially_destructible_v<PointerCache<int>>);
}
