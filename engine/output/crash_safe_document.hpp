#pragma once
// A document on disk that is whole at every moment, also when the program is killed between any two instructions.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "output/new_file.hpp"

namespace busbw {

/// A JSON document that grows in front of its closing text. A write can be cut short by SIGKILL, but only where one
/// page of the file ends and the next begins. So blanks, which JSON allows, are kept in front of the closing text, and
/// new text takes the place of blanks within one page. When the blanks run out, or the text is longer than a page, a
/// second file is written and takes the place of the first in one step; room doubles each time.
class CrashSafeDocument {
 public:
  explicit CrashSafeDocument(NewFile file) : file_(std::move(file)) {}

  const std::string& path() const { return file_.path(); }
  void discard() { file_.discard(); }

  /// Makes the document `opening` + `closing`, whatever it was before. This and all calls below throw EnvironmentError
  /// when they cannot write; the document is then what it was before the call.
  void start(std::string_view opening, std::string_view closing);
  /// Adds `text` in front of the closing text.
  void insert(std::string_view text);
  /// Changes the closing text and removes the blanks. Nothing may be inserted after that.
  void finish(std::string_view closing);

 private:
  struct Extent {
    std::uint64_t offset, size;
  };
  void rewrite(std::string_view added, std::uint64_t blanks);
  void add_piece(std::uint64_t offset, std::uint64_t size);

  NewFile file_;
  std::string closing_;
  std::vector<Extent> pieces_;        // where in the file the document's text lies, its closing text aside
  std::uint64_t padding_end_ = 0;     // where the closing text begins
};

}  // namespace busbw
