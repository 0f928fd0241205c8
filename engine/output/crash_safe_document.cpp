#include "output/crash_safe_document.hpp"

#include <algorithm>

#include "common/support/error.hpp"

namespace busbw {
namespace {

constexpr std::uint64_t kPageBytes = 4096;  // the smallest page of any system; larger ones are multiples of it
constexpr std::uint64_t kMinPaddingBytes = 64 * 1024;
constexpr std::uint64_t kCopyBytes = 256 * 1024;  // per read during a rewrite

bool fits_in_page_of(std::uint64_t offset, std::uint64_t size_bytes) {
  return offset / kPageBytes == (offset + size_bytes - 1) / kPageBytes;
}

}  // namespace

void CrashSafeDocument::start(std::string_view opening, std::string_view closing) {
  extents_.clear();
  closing_ = closing;
  rewrite(opening, kMinPaddingBytes);
}

void CrashSafeDocument::insert(std::string_view text) {
  if (text.empty() || file_.discarded()) return;
  std::uint64_t offset = extents_.back().offset + extents_.back().size_bytes;
  if (!fits_in_page_of(offset, text.size())) offset = (offset / kPageBytes + 1) * kPageBytes;
  if (fits_in_page_of(offset, text.size()) && offset + text.size() <= padding_end_) {
    file_.overwrite(offset, text);
    add_extent(offset, text.size());
  } else {
    // A text longer than a page always rewrites the file. The next text is probably as long and could not use padding.
    rewrite(text, text.size() > kPageBytes ? 0 : std::max(kMinPaddingBytes, file_.size_bytes()));
  }
}

void CrashSafeDocument::finish(std::string_view closing) {
  closing_ = closing;
  rewrite("", 0);
}

/// Writes a new file without gaps and replaces the old one: all extents, `added_text`, padding, the closing text.
void CrashSafeDocument::rewrite(std::string_view added_text, std::uint64_t padding_bytes) {
  if (file_.discarded()) return;
  NewFile replacement = file_.create_replacement();
  try {
    for (const Extent& extent : extents_) {
      for (std::uint64_t copied_bytes = 0; copied_bytes < extent.size_bytes; copied_bytes += kCopyBytes) {
        replacement.append(
            file_.read(extent.offset + copied_bytes, std::min(kCopyBytes, extent.size_bytes - copied_bytes)));
      }
    }
    replacement.append(added_text);
    const std::uint64_t text_bytes = replacement.size_bytes();
    replacement.append(std::string(padding_bytes, ' ') + closing_);
    file_.replace_with(std::move(replacement));
    extents_ = {{0, text_bytes}};
    padding_end_ = text_bytes + padding_bytes;
  } catch (const Error&) {
    replacement.discard();
    throw;
  }
}

void CrashSafeDocument::add_extent(std::uint64_t offset, std::uint64_t size_bytes) {
  Extent& last = extents_.back();
  if (last.offset + last.size_bytes == offset) {
    last.size_bytes += size_bytes;
  } else {
    extents_.push_back({offset, size_bytes});
  }
}

}  // namespace busbw
