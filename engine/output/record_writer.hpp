#pragma once
// Writes records (--records): one JSON object per line, during the run. schema/records.schema.json is the contract with
// readers; docs/reference/records.md explains each field.
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "output/json_builder.hpp"
#include "output/new_file.hpp"
#include "output/sink.hpp"
#include "output/text_stream.hpp"

namespace busbw {

/// Version of the record schema. schema/README.md says when it changes; src/busbw/records/header.py must have the same
/// value.
inline constexpr std::string_view kSchemaVersion = "1.8";

/// Writes each line with one call, so that the file is complete up to the last row even after a crash.
class RecordWriter : public Sink {
 public:
  explicit RecordWriter(NewFile file) : file_(std::move(file)) {}
  /// Writes to a stream that may also receive the table. Readers find record lines by their first character, '{'.
  explicit RecordWriter(TextStream stream) : stream_(std::move(stream)) {}
  /// Creates `path`. Throws UsageError naming --records if it exists or cannot be created.
  static std::unique_ptr<RecordWriter> open(const std::string& path);

  /// Path of the file. Empty if the records go to a stream.
  std::string path() const { return file_ ? file_->path() : std::string(); }
  /// Removes the file, if start-up failed after its creation.
  void discard() {
    if (file_) file_->discard();
  }

  void begin(const RunInfo& run) override;
  void rows(const CaseRows& rows) override;
  void end(const RunEnd& end) override;

 private:
  void write_row(const Row& row, Placement placement, const Measurement& measurement);
  void start_line(std::string_view kind);
  void finish_line();

  std::optional<NewFile> file_;  // either a file or a stream
  std::optional<TextStream> stream_;
  bool begun_ = false;
  JsonBuilder line_;
};

}  // namespace busbw
