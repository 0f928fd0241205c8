#pragma once
// Memory that all ranks of this machine reach at the same address: one anonymous mapping, made before any fork.
#include <cstddef>

namespace busbw {

/// Who reaches the memory.
enum class Sharing {
  threads,    // one process: private memory, which gets huge pages most readily
  processes,  // forked processes too
};

/// An anonymous mapping, zeroed, aligned to kAlignment. Pages cost memory only once they are touched.
class Arena {
 public:
  /// A huge page on x86-64 and most others; a mapping that starts on such a boundary can be made of huge pages.
  static constexpr std::size_t kAlignment = std::size_t{2} << 20;

  /// Throws EnvironmentError where the machine refuses the mapping.
  Arena(std::size_t bytes, Sharing sharing);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::size_t size_;
  std::size_t mapped_bytes_;
  void* mapping_;
  std::byte* data_;
};

}  // namespace busbw
