// Maps anonymous memory, aligned to huge pages.
#include "backends/host/arena.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>

#include "common/support/error.hpp"

namespace busbw {
namespace {

[[noreturn]] void throw_cannot_map(std::size_t bytes, const char* reason) {
  throw EnvironmentError(
      fmt::format("the host backend cannot map {} bytes for its ranks' buffers (mmap: {}); use a smaller -e or fewer "
                  "ranks, or raise the limit on virtual memory (ulimit -v)",
                  bytes, reason));
}

}  // namespace

Arena::Arena(std::size_t bytes, Sharing sharing) : size_(bytes) {
  if (bytes > std::numeric_limits<std::size_t>::max() - kAlignment) throw_cannot_map(bytes, std::strerror(ENOMEM));
  mapped_bytes_ = bytes + kAlignment;  // mmap aligns to small pages only
  const int sharing_flag = sharing == Sharing::processes ? MAP_SHARED : MAP_PRIVATE;
  mapping_ = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_NORESERVE | sharing_flag, -1, 0);
  if (mapping_ == MAP_FAILED) throw_cannot_map(bytes, std::strerror(errno));
  const auto address = reinterpret_cast<std::uintptr_t>(mapping_);
  data_ = static_cast<std::byte*>(mapping_) + ((kAlignment - address % kAlignment) % kAlignment);
#ifdef MADV_HUGEPAGE
  // A request only: the result is ignored, because the arena also works without huge pages.
  madvise(data_, size_, MADV_HUGEPAGE);
#endif
}

Arena::~Arena() { munmap(mapping_, mapped_bytes_); }

}  // namespace busbw
