#pragma once
// Memory that all ranks of one machine access at the same address: one anonymous mapping, made before any fork.
#include <cstddef>

namespace busbw {

/// Processes that access the memory.
enum class Sharing {
  threads,    // threads of this process: private memory, for which the kernel provides huge pages more readily
  processes,  // this process and its forks
};

/// An anonymous mapping, zeroed and aligned to kAlignment. Pages consume memory only after the first access.
class Arena {
 public:
  /// Size of a huge page on x86-64 and most other machines. Huge pages need a mapping that starts on this boundary.
  static constexpr std::size_t kAlignment = std::size_t{2} << 20;

  /// Throws EnvironmentError if the system refuses the mapping.
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
