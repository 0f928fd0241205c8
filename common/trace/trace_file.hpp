#pragma once
// Writer of one trace file (format.hpp). Threads take records without locks. The file is mapped. Its disk space is
// reserved ahead of use, so that a full disk only loses records, and does not raise SIGBUS in the recorded job.
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>

#include "common/os/descriptor.hpp"
#include "common/os/environment.hpp"
#include "common/support/error.hpp"
#include "common/trace/format.hpp"

namespace busbw::trace {

inline constexpr std::uint64_t kDefaultMaxBytes = std::uint64_t{256} << 20;

/// Place and size limit of a trace file.
struct TraceSettings {
  std::filesystem::path directory;  // is created if it does not exist
  std::uint64_t max_bytes = kDefaultMaxBytes;
};

/// Returns the settings in BUSBW_TRACE_DIRECTORY and BUSBW_TRACE_MAX_BYTES, or nothing if no directory is set. Throws
/// UsageError if the size is invalid.
std::optional<TraceSettings> trace_settings(Environment environment);

/// Facts for the header that the caller must provide. The writer itself reads no clock.
struct TraceOrigin {
  std::string producer;  // "busbw-engine 0.1.0"
  std::uint64_t start_realtime_ns = 0;
  std::uint64_t start_monotonic_ns = 0;
  std::int32_t rank = -1;  // of the process in its job; -1: unknown
  std::int32_t size = -1;  // number of processes of the job; -1: unknown
};

/// The trace file of this process. Thread-safe between constructor and destructor, except for changes of the header.
class TraceFile {
 public:
  /// Creates `HOST-PID.trace`. Throws EnvironmentError with the reason if this is impossible.
  TraceFile(const TraceSettings& settings, const TraceOrigin& origin);
  /// Closes the file and unmaps its records. Nobody may use a record after that.
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  /// Returns a record of zeros, or null if the record is lost. The caller fills it and stores `kind` last, with
  /// std::memory_order_release. The record stays writable until the destructor. Changes after `close` may not reach
  /// the file.
  template <class Record>
  Record* take() noexcept {
    static_assert(sizeof(Record) == kRecordBytes);
    void* const slot = take_slot();
    if (slot != nullptr) return new (slot) Record{};
    count_lost();
    return nullptr;
  }
  /// Counts a lost record that the caller did not try to take.
  void count_lost() noexcept;
  /// True if `address` is in a record of this file.
  bool contains(const void* address) const noexcept {
    const auto* const byte = static_cast<const std::byte*>(address);
    return byte >= base_ + kHeaderBytes && byte < base_ + mapped_bytes_;
  }
  /// Header, for facts that become known later, such as `nccl_version`.
  Header& header() noexcept { return *header_; }
  const std::filesystem::path& path() const noexcept { return path_; }

  /// Cuts the file to its used length and marks it as complete. Later records are lost. Does nothing in a child of
  /// the process that created the file.
  void close() noexcept;

 private:
  // Steps of the constructor.
  void create_file(const std::filesystem::path& directory, const std::string& host);
  void map_file();
  /// Returns the error for a failed action, such as "create". `error`: errno.
  EnvironmentError file_error(std::string_view action, int error) const;
  /// Returns the memory of the next record, or null if it has no disk space or the limit is reached.
  void* take_slot() noexcept;
  /// Reserves the disk space of a chunk of records.
  void reserve_chunk(std::uint64_t chunk) noexcept;

  std::filesystem::path path_;
  Descriptor file_;
  pid_t pid_;
  std::byte* base_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  Header* header_ = nullptr;
  std::uint64_t max_records_ = 0;
  std::atomic<std::uint64_t> record_limit_{0};  // max_records_, or 0 after `close`
  std::unique_ptr<std::atomic<bool>[]> is_reserved_;  // for each chunk
};

}  // namespace busbw::trace
