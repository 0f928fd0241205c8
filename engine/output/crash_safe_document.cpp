#include "output/crash_safe_document.hpp"

#include <algorithm>

#include "common/support/error.hpp"

namespace busbw {
namespace {

constexpr std::uint64_t kPageBytes = 4096;  // the smallest page of any system; larger ones are multiples of it
constexpr std::uint64_t kMinBlanks = 64 * 1024;
constexpr std::uint64_t kCopyBytes = 256 * 1024;

bool within_one_page(std::uint64_t offset, std::uint64_t size) {
  return offset / kPageBytes == (offset + size - 1) / kPageBytes;
}

}  // namespace

void CrashSafeDocument::start(std::string_view opening, std::string_view closing) {
  pieces_.clear();
  closing_ = closing;
  rewrite(opening, kMinBlanks);
}

void CrashSafeDocument::insert(std::string_view text) {
  if (text.empty() || file_.discarded()) return;
  std::uint64_t at = pieces_.back().offset + pieces_.back().size;
  if (!within_one_page(at, text.size())) at = (at / kPageBytes + 1) * kPageBytes;
  if (within_one_page(at, text.size()) && at + text.size() <= padding_end_) {
    file_.overwrite(at, text);
    add_piece(at, text.size());
  } else {
    rewrite(text, text.size() > kPageBytes ? 0 : std::max(kMinBlanks, file_.size_bytes()));
  }
}

void CrashSafeDocument::finish(std::string_view closing) {
  closing_ = closing;
  rewrite("", 0);
}

/// Writes the document anew, without the blanks between its pieces: the pieces, `added`, blanks, the closing text.
void CrashSafeDocument::rewrite(std::string_view added, std::uint64_t blanks) {
  if (file_.discarded()) return;
  NewFile next = file_.create_replacement();
  try {
    for (const Extent& piece : pieces_) {
      for (std::uint64_t done = 0; done < piece.size; done += kCopyBytes) {
        next.append(file_.read(piece.offset + done, std::min(kCopyBytes, piece.size - done)));
      }
    }
    next.append(added);
    const std::uint64_t text_bytes = next.size_bytes();
    next.append(std::string(blanks, ' ') + closing_);
    file_.replace_with(std::move(next));
    pieces_ = {{0, text_bytes}};
    padding_end_ = text_bytes + blanks;
  } catch (const Error&) {
    next.discard();
    throw;
  }
}

void CrashSafeDocument::add_piece(std::uint64_t offset, std::uint64_t size) {
  Extent& last = pieces_.back();
  if (last.offset + last.size == offset) {
    last.size += size;
  } else {
    pieces_.push_back({offset, size});
  }
}

}  // namespace busbw
