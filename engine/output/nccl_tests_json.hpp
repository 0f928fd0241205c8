#pragma once
// -J: the JSON document of nccl-tests (its format version 3), for readers that know it. docs/records.md says where it
// differs from the model.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "output/json_text.hpp"
#include "output/new_file.hpp"
#include "output/sink.hpp"

namespace busbw {

/// Writes one document, valid on disk after every call: each row is written together with the brackets that close the
/// document, and the next row takes the place of those brackets.
class NcclTestsJson : public Sink {
 public:
  explicit NcclTestsJson(NewFile file);
  /// Creates `path`, or path.0, path.1, ... if it exists. Throws UsageError naming -J when that cannot be done.
  static std::unique_ptr<NcclTestsJson> open(const std::string& path);

  /// The file that was created.
  const std::string& path() const { return file_.path(); }
  /// Removes the file: for a start-up that failed after it was created.
  void discard() { file_.discard(); }

  void begin(const RunInfo& run) override;
  void rows(const CaseRows& rows) override;
  void warning(const std::string& sentence) override;
  void end(const RunEnd& end) override;

 private:
  void write_result(const Row& row, bool several_groups);
  void write_placement(Placement placement, const std::optional<Measurement>& measurement);
  void write_closing(const RunEnd* end);
  void replace_closing();
  void replace_from_rows_end();

  NewFile file_;
  bool begun_ = false;
  std::string busbw_version_;
  std::string backend_;
  RunSettings settings_;
  std::uint64_t first_row_at_ = 0;
  std::uint64_t rows_end_ = 0;  // where the next row goes, in place of the closing brackets
  std::vector<std::string> warnings_;
  JsonText json_;
};

}  // namespace busbw
