#pragma once
// -J: the JSON document of nccl-tests (its format version 3), for readers that know it. docs/records.md says where it
// differs from the model.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "output/crash_safe_document.hpp"
#include "output/json_builder.hpp"
#include "output/new_file.hpp"
#include "output/sink.hpp"

namespace busbw {

/// Writes one document, valid on disk at every moment from its creation on.
class NcclTestsJson : public Sink {
 public:
  explicit NcclTestsJson(NewFile file);
  /// Creates `path`, or path.0, path.1, ... if it exists. Throws UsageError naming -J when that cannot be done.
  static std::unique_ptr<NcclTestsJson> open(const std::string& path);

  /// The file that was created.
  const std::string& path() const { return document_.path(); }
  /// Removes the file: for a start-up that failed after it was created.
  void discard() { document_.discard(); }

  void begin(const RunInfo& run) override;
  void rows(const CaseRows& rows) override;
  void end(const RunEnd& end) override;

 private:
  void write_result(const Row& row, bool several_groups);
  void write_placement(Placement placement, const std::optional<Measurement>& measurement);
  std::string closing(const RunEnd* end) const;

  CrashSafeDocument document_;
  bool begun_ = false;
  bool first_result_ = true;
  std::string busbw_version_;
  std::string backend_;
  RunSettings settings_;
  std::vector<std::string> warnings_;
  JsonBuilder json_;
};

}  // namespace busbw
