#pragma once
// A document on disk that is complete at every moment, even if the program is killed between any two instructions.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "output/new_file.hpp"

namespace busbw {

/// A JSON document that grows in front of its closing text. SIGKILL can cut a write short, but only at a page boundary
/// of the file. Blanks, which JSON allows, pad the space in front of the closing text, and new text overwrites blanks
/// within one page. If the padding is used up, or the text is longer than a page, a second file replaces the first in
/// one step. The padding doubles each time.
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
  struct Extent {
    std::uint64_t offset, size;
  };
  void rewrite(std::string_view added, std::uint64_t padding);
  void add_extent(std::uint64_t offset, std::uint64_t size);

  NewFile file_;
  std::string closing_;
  std::vector<Extent> extents_;  // extents of the document's text in the file, without its closing text
  std::uint64_t padding_end_ = 0;  // start of the closing text
};

}  // namespace busbw
