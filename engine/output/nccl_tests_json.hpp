#pragma once
// The output of -J: the JSON document of nccl-tests (its format version 3), for existing readers.
// docs/reference/nccl-tests.md lists the differences from nccl-tests.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "output/json_builder.hpp"
#include "output/new_file.hpp"
#include "output/sink.hpp"

namespace busbw {

/// Writes one document. From the constructor on, the file on disk is a valid document at every moment, even if the
/// program is killed, because a complete new file replaces the old one. A small file is replaced after every row, and a
/// large one when the document has grown by 1/64 since the last replacement.
class NcclTestsJson : public Sink {
 public:
  explicit NcclTestsJson(NewFile file);
  /// Creates `path`, or path.0, path.1, ... if it exists. Throws UsageError naming -J if that fails.
  static std::unique_ptr<NcclTestsJson> open(const std::string& path);

  /// Path of the file that was created.
  const std::string& path() const { return file_.path(); }
  /// Removes the file, if start-up failed after its creation.
  void discard() { file_.discard(); }

  void begin(const RunInfo& run) override;
  void rows(const CaseRows& rows) override;
  void end(const RunEnd& end) override;

 private:
  void write_result(const Row& row, bool has_several_groups);
  void write_placement(Placement placement, const std::optional<Measurement>& measurement);
  void replace_file(const RunEnd* end);

  NewFile file_;
  bool begun_ = false;
  std::string busbw_version_;
  std::string backend_;
  RunSettings settings_;
  std::vector<std::string> warnings_;
  JsonBuilder json_;  // the document without its closing brackets
  std::size_t next_size_ = 0;  // the file is replaced again when `json_` has this size
};

}  // namespace busbw
