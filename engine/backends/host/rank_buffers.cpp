// Maps anonymous memory, and divides it into two page-aligned buffers for each rank.
#include "backends/host/rank_buffers.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>

#include "common/support/error.hpp"

namespace busbw {
namespace {

constexpr std::size_t kPageBytes = 4096;

std::size_t total_bytes(int ranks, std::size_t buffer_bytes, std::size_t front_bytes) {
  const std::size_t buffer_count = 2 * static_cast<std::size_t>(ranks);
  const std::size_t address_space = std::numeric_limits<std::size_t>::max() - front_bytes - RankBuffers::kAlignment;
  const std::size_t max_buffer_bytes = address_space / buffer_count - kPageBytes;  // with space for rounding up
  if (buffer_bytes > max_buffer_bytes) {
    throw EnvironmentError(
        fmt::format("{} buffers of {} bytes exceed the address space; use a smaller -e", buffer_count, buffer_bytes));
  }
  return front_bytes + buffer_count * RankBuffers::page_aligned(buffer_bytes);
}

}  // namespace

std::size_t RankBuffers::page_aligned(std::size_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

RankBuffers::RankBuffers(int ranks, std::size_t buffer_bytes, std::size_t front_bytes, Sharing sharing)
    : buffer_bytes_(buffer_bytes), front_bytes_(front_bytes) {
  const std::size_t bytes = total_bytes(ranks, buffer_bytes, front_bytes);
  mapped_bytes_ = bytes + kAlignment;  // mmap aligns to small pages only
  const int sharing_flag = sharing == Sharing::processes ? MAP_SHARED : MAP_PRIVATE;
  mapping_ = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_NORESERVE | sharing_flag, -1, 0);
  if (mapping_ == MAP_FAILED)
    throw EnvironmentError(
        fmt::format("the host backend cannot map {} bytes for its ranks' buffers (mmap: {}); use a smaller -e or fewer "
                    "ranks, or raise the limit on virtual memory (ulimit -v)",
                    bytes, std::strerror(errno)));
  const auto address = reinterpret_cast<std::uintptr_t>(mapping_);
  data_ = static_cast<std::byte*>(mapping_) + ((kAlignment - address % kAlignment) % kAlignment);
#ifdef MADV_HUGEPAGE
  // A request only: the result is ignored, because the buffers also work without huge pages.
  madvise(data_, bytes, MADV_HUGEPAGE);
#endif
}

RankBuffers::~RankBuffers() { munmap(mapping_, mapped_bytes_); }

std::span<std::byte> RankBuffers::buffer(int index) const {
  return {data_ + front_bytes_ + static_cast<std::size_t>(index) * page_aligned(buffer_bytes_), buffer_bytes_};
}

}  // namespace busbw
