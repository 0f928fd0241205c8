#pragma once
// Records: one JSON object a line, written as the run goes. schema/records.schema.json is the contract and
// docs/records.md says what each field means.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "output/json_builder.hpp"
#include "output/new_file.hpp"
#include "output/sink.hpp"
#include "output/text_stream.hpp"

namespace busbw {

/// Of the record schema, by its own rules (schema/README.md); src/busbw/records.py has the same.
inline constexpr std::string_view kSchemaVersion = "1.3";

/// Writes each line with one write call, so that the file is complete up to the last row whatever happens.
class RecordWriter : public Sink {
 public:
  explicit RecordWriter(NewFile file) : file_(std::move(file)) {}
  /// To a stream that others write to as well: its lines are those that begin with '{'.
  explicit RecordWriter(TextStream stream) : stream_(std::move(stream)) {}
  /// Creates `path`. Throws UsageError naming --records when it exists or cannot be created.
  static std::unique_ptr<RecordWriter> open(const std::string& path);

  /// Empty where they go to a stream.
  std::string path() const { return file_ ? file_->path() : std::string(); }
  /// Removes the file: for a start-up that failed after it was created.
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

  std::optional<NewFile> file_;
  std::optional<TextStream> stream_;
  bool begun_ = false;
  JsonBuilder line_;
};

}  // namespace busbw
