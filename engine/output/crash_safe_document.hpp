#pragma once
// A JSON document on disk that is complete at every moment, even if the program is killed between any two instructions.
// NcclTestsJson writes it row by row.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "output/new_file.hpp"

namespace busbw {

/// A document that grows in front of its closing text, the brackets at its end. Padding precedes the closing text:
/// blanks, which JSON allows. New text overwrites blanks within one page, because SIGKILL can cut a write short only at
/// a page boundary of the file. If the padding is used up, or the text is longer than a page, a second file with new
/// padding replaces the first in one step. Padding as large as the document keeps such rewrites rare.
class CrashSafeDocument {
 public:
  explicit CrashSafeDocument(NewFile file) : file_(std::move(file)) {}

  const std::string& path() const { return file_.path(); }
  void discard() { file_.discard(); }

  /// Sets the document to `opening` + `closing`, replacing earlier content. This and all calls below throw
  /// EnvironmentError if they cannot write. The document is then unchanged.
  void start(std::string_view opening, std::string_view closing);
  /// Inserts `text` in front of the closing text.
  void insert(std::string_view text);
  /// Changes the closing text and removes the padding. Nothing may be inserted afterwards.
  void finish(std::string_view closing);

 private:
  /// A range of the file with text of the document. Text may not cross a page boundary, so blanks fill the rest of a
  /// page that is too short for the next text.
  struct Extent {
    std::uint64_t offset, size_bytes;
  };
  void rewrite(std::string_view added_text, std::uint64_t padding_bytes);
  void add_extent(std::uint64_t offset, std::uint64_t size_bytes);

  NewFile file_;
  std::string closing_;
  std::vector<Extent> extents_;  // the document's text, without its closing text
  std::uint64_t padding_end_ = 0;  // offset of the closing text
};

}  // namespace busbw
