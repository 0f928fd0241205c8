#include "output/crash_safe_document.hpp"

#include <algorithm>

#include "common/support/error.hpp"

namespace busbw {
namespace {

constexpr std::uint64_t kPageBytes = 4096;  // the smallest page of any system; larger ones are multiples of it
constexpr std::uint64_t kMinPadding = 64 * 1024;
constexpr std::uint64_t kCopyBytes = 256 * 1024;

bool within_one_page(std::uint64_t offset, std::uint64_t size) {
  return offset / kPageBytes == (offset + size - 1) / kPageBytes;
}

}  // namespace

void CrashSafeDocument::start(std::string_view opening, std::string_view closing) {
  extents_.clear();
  closing_ = closing;
  rewrite(opening, kMinPadding);
}

void CrashSafeDocument::insert(std::string_view text) {
  if (text.empty() || file_.discarded()) return;
  std::uint64_t at = extents_.back().offset + extents_.back().size;
  if (!within_one_page(at, text.size())) at = (at / kPageBytes + 1) * kPageBytes;
  if (within_one_page(at, text.size()) && at + text.size() <= padding_end_) {
    file_.overwrite(at, text);
    add_extent(at, text.size());
  } else {
    rewrite(text, text.size() > kPageBytes ? 0 : std::max(kMinPadding, file_.size_bytes()));
  }
}

void CrashSafeDocument::finish(std::string_view closing) {
  closing_ = closing;
  rewrite("", 0);
}

/// Rewrites the document without gaps: its extents, `added`, padding, the closing text.
void CrashSafeDocument::rewrite(std::string_view added, std::uint64_t padding) {
  if (file_.discarded()) return;
  NewFile next = file_.create_replacement();
  try {
    for (const Extent& extent : extents_) {
      for (std::uint64_t done = 0; done < extent.size; done += kCopyBytes) {
        next.append(file_.read(extent.offset + done, std::min(kCopyBytes, extent.size - done)));
      }
    }
    next.append(added);
    const std::uint64_t text_bytes = next.size_bytes();
    next.append(std::string(padding, ' ') + closing_);
    file_.replace_with(std::move(next));
    extents_ = {{0, text_bytes}};
    padding_end_ = text_bytes + padding;
  } catch (const Error&) {
    next.discard();
    throw;
  }
}

void CrashSafeDocument::add_extent(std::uint64_t offset, std::uint64_t size) {
  Extent& last = extents_.back();
  if (last.offset + last.size == offset) {
    last.size += size;
  } else {
    extents_.push_back({offset, size});
  }
}

}  // namespace busbw
