// The writer of trace files: what reaches the file when processes are killed, disks are full and threads race.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <set>
#include <thread>
#include <vector>

#include "common/support/error.hpp"
#include "common/trace/launched_process.hpp"
#include "common/trace/trace_file.hpp"
#include "support_child.hpp"
#include "temporary_folder.hpp"

namespace busbw::trace {
namespace {

namespace fs = std::filesystem;

/// The bytes of a file, read without the writer's code.
struct FileContent {
  std::vector<char> bytes;

  explicit FileContent(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  template <class Value>
  Value at(std::size_t offset) const {
    Value value{};
    REQUIRE(offset + sizeof(Value) <= bytes.size());
    std::memcpy(&value, bytes.data() + offset, sizeof(Value));
    return value;
  }
  std::uint64_t record_count() const { return at<std::uint64_t>(offsetof(Header, record_count)); }
  std::uint64_t lost_count() const { return at<std::uint64_t>(offsetof(Header, lost_count)); }
  bool is_closed() const { return at<std::uint8_t>(offsetof(Header, is_closed)) == 1; }
  /// Counts of the completed operations.
  std::vector<std::uint64_t> counts() const {
    std::vector<std::uint64_t> counts;
    for (std::size_t at = kHeaderBytes; at + kRecordBytes <= bytes.size(); at += kRecordBytes)
      if (bytes[at] == static_cast<char>(Kind::operation))
        counts.push_back(this->at<std::uint64_t>(at + offsetof(OperationRecord, count)));
    return counts;
  }
};

fs::path only_file(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  REQUIRE(files.size() == 1);
  return files.front();
}

bool write_operation(TraceFile& file, std::uint64_t count) {
  auto* const record = file.take<OperationRecord>();
  if (record == nullptr) return false;
  record->count = count;
  record->kind.store(Kind::operation, std::memory_order_release);
  return true;
}

std::vector<std::uint64_t> numbers_up_to(std::uint64_t end) {
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t number = 0; number < end; ++number) numbers.push_back(number);
  return numbers;
}

TEST_CASE("a trace file has the header and exactly the written records, and is cut to them") {
  const test::TemporaryFolder folder;
  {
    TraceFile file({.directory = folder.path() + "/new"},
                   {.producer = "test 1", .start_realtime_ns = 5, .start_monotonic_ns = 7, .rank = 3, .size = 8});
    for (const std::uint64_t count : numbers_up_to(1000)) CHECK(write_operation(file, count));
    CHECK(file.path() == only_file(folder.path() + "/new"));
  }
  const FileContent content(only_file(folder.path() + "/new"));
  CHECK(std::string(content.bytes.data(), 8) == "busbwtrc");
  CHECK(content.bytes.size() == kHeaderBytes + 1000 * kRecordBytes);
  CHECK(content.record_count() == 1000);
  CHECK(content.lost_count() == 0);
  CHECK(content.is_closed());
  CHECK(content.counts() == numbers_up_to(1000));
  CHECK(content.at<std::int32_t>(offsetof(Header, rank)) == 3);
  CHECK(content.at<std::int32_t>(offsetof(Header, pid)) == getpid());
  CHECK(content.at<std::uint64_t>(offsetof(Header, start_monotonic_ns)) == 7);
  CHECK(std::string(content.bytes.data() + offsetof(Header, program)) == "engine_tests");
  CHECK(std::string(content.bytes.data() + offsetof(Header, producer)) == "test 1");
}

TEST_CASE("a killed process loses no completed record of a trace, over several chunks") {
  const test::TemporaryFolder folder;
  const std::uint64_t records = 30'000;
  const int status = test::status_of_child([&] {
    TraceFile file({.directory = folder.path()}, {});
    for (std::uint64_t count = 0; count < records; ++count) write_operation(file, count);
    file.take<OperationRecord>();  // never completed
    kill(getpid(), SIGKILL);
  });
  CHECK(WTERMSIG(status) == SIGKILL);
  const FileContent content(only_file(folder.path()));
  CHECK_FALSE(content.is_closed());
  CHECK(content.record_count() == records + 1);
  CHECK(content.counts() == numbers_up_to(records));
}

TEST_CASE("the size limit of a trace loses the later records and counts them") {
  const test::TemporaryFolder folder;
  TraceFile file({.directory = folder.path(), .max_bytes = kHeaderBytes + 100 * kRecordBytes}, {});
  for (std::uint64_t count = 0; count < 130; ++count) CHECK(write_operation(file, count) == (count < 100));
  file.close();
  CHECK_FALSE(write_operation(file, 131));
  const FileContent content(file.path());
  CHECK(content.bytes.size() == kHeaderBytes + 100 * kRecordBytes);
  CHECK(content.counts() == numbers_up_to(100));
  CHECK(content.record_count() == 100);
  CHECK(content.lost_count() == 31);
}

TEST_CASE("a full disk loses records of a trace, without a signal") {
  // The limit on the size of a file acts as the full disk: space for the header and one chunk, but not for two.
  const test::TemporaryFolder folder;
  const int status = test::status_of_child([&] {
    const rlimit limit{.rlim_cur = 600 << 10, .rlim_max = 600 << 10};
    setrlimit(RLIMIT_FSIZE, &limit);
    TraceFile file({.directory = folder.path()}, {});
    for (std::uint64_t count = 0; count < 50'000; ++count) write_operation(file, count);
  });
  CHECK(status == 0);
  const FileContent content(only_file(folder.path()));
  const std::uint64_t stored = content.counts().size();
  CHECK(stored == (512 << 10) / kRecordBytes);
  CHECK(content.counts() == numbers_up_to(stored));
  CHECK(content.lost_count() == 50'000 - stored);
  CHECK(content.record_count() == stored);
  CHECK(content.is_closed());
}

TEST_CASE("a trace continues after a disk was full for a while") {
  const test::TemporaryFolder folder;
  const int status = test::status_of_child([&] {
    TraceFile file({.directory = folder.path()}, {});
    rlimit limit{.rlim_cur = 600 << 10, .rlim_max = RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
    for (std::uint64_t count = 0; count < 10'000; ++count) write_operation(file, count);
    limit.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_FSIZE, &limit);
    for (std::uint64_t count = 10'000; count < 40'000; ++count) write_operation(file, count);
  });
  CHECK(status == 0);
  const FileContent content(only_file(folder.path()));
  const auto counts = content.counts();
  CHECK(counts.back() == 39'999);
  CHECK(counts.size() + content.lost_count() == 40'000);
  CHECK(content.lost_count() == (512 << 10) / kRecordBytes);
}

TEST_CASE("a trace that cannot be created names file, reason and remedy") {
  const test::TemporaryFolder folder;
  std::ofstream(folder.file("file")) << "text";
  CHECK_THROWS_WITH_AS(TraceFile({.directory = folder.file("file")}, {}),
                       doctest::Contains("Not a directory; set BUSBW_TRACE_DIRECTORY to another directory"),
                       EnvironmentError);
}

TEST_CASE("a child leaves the trace of its parent alone") {
  const test::TemporaryFolder folder;
  TraceFile file({.directory = folder.path()}, {});
  write_operation(file, 1);
  CHECK(test::status_of_child([&] { file.close(); }) == 0);
  CHECK(write_operation(file, 2));
  CHECK_FALSE(FileContent(file.path()).is_closed());
  file.close();
  CHECK(FileContent(file.path()).counts() == std::vector<std::uint64_t>{1, 2});
}

TEST_CASE("processes with equal host and number write separate traces") {
  const test::TemporaryFolder folder;
  const TraceFile first({.directory = folder.path()}, {});
  const TraceFile second({.directory = folder.path()}, {});
  CHECK(first.path() != second.path());
  CHECK(second.path().extension() == ".trace");
}

TEST_CASE("records of many threads are all stored, and writing to them after the end is harmless") {
  const test::TemporaryFolder folder;
  auto file = std::make_unique<TraceFile>(TraceSettings{.directory = folder.path()}, TraceOrigin{});
  constexpr std::uint64_t kThreads = 4;
  constexpr std::uint64_t kRecords = 12'000;
  std::vector<OperationRecord*> records(kThreads);
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t thread = 0; thread < kThreads; ++thread)
      threads.emplace_back([&, thread] {
        for (std::uint64_t index = 0; index < kRecords; ++index) write_operation(*file, thread * kRecords + index);
        records[thread] = file->take<OperationRecord>();
      });
  }
  std::erase(records, nullptr);  // lost, if the threads reached a chunk before one of them had reserved it
  for (OperationRecord* const record : records) CHECK(file->contains(record));
  CHECK_FALSE(file->contains(&file->header()));
  CHECK_FALSE(file->contains(records.data()));
  file->close();
  for (OperationRecord* const record : records) record->device_end_ns = 1;
  const FileContent content(file->path());
  const auto counts = content.counts();
  CHECK(counts.size() + records.size() + content.lost_count() == kThreads * (kRecords + 1));
  CHECK(std::set(counts.begin(), counts.end()).size() == counts.size());
  CHECK(content.record_count() == kThreads * (kRecords + 1));
}

TEST_CASE("threads may write while a trace is closed") {
  const test::TemporaryFolder folder;
  TraceFile file({.directory = folder.path()}, {});
  std::atomic<bool> should_stop = false;
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 3; ++thread)
      threads.emplace_back([&] {
        for (std::uint64_t count = 0; !should_stop; ++count) write_operation(file, count);
      });
    while (file.header().record_count < 20'000) std::this_thread::yield();
    file.close();
    while (file.header().lost_count < 100) std::this_thread::yield();
    should_stop = true;
  }
  const FileContent content(file.path());
  CHECK(content.is_closed());
  CHECK(content.counts().size() >= 10'000);
}

TEST_CASE("trace settings come from the environment") {
  const auto unset = [](const char*) { return std::optional<std::string>(); };
  CHECK_FALSE(trace_settings(unset));
  const auto small = [](const char* variable) {
    return std::optional<std::string>(std::string(variable) == "BUSBW_TRACE_DIRECTORY" ? "/tmp/a" : "64M");
  };
  CHECK(trace_settings(small)->directory == "/tmp/a");
  CHECK(trace_settings(small)->max_bytes == 64 << 20);
  CHECK_THROWS_WITH_AS(trace_settings([](const char*) { return std::optional<std::string>("1K"); }),
                       doctest::Contains("BUSBW_TRACE_MAX_BYTES: not a size of at least 8K: 1K"), UsageError);
  CHECK_THROWS_WITH_AS(trace_settings([](const char*) { return std::optional<std::string>("8191"); }),
                       doctest::Contains("not a size of at least 8K: 8191"), UsageError);
  CHECK(trace_settings([](const char*) { return std::optional<std::string>("8K"); })->max_bytes == 8192);
}

template <const char* const* variables>
std::optional<std::string> listed(const char* variable) {
  for (const char* const* name = variables; *name != nullptr; name += 2)
    if (std::string(*name) == variable) return name[1];
  return std::nullopt;
}

constexpr const char* kTorchrunInSlurm[] = {"SLURM_PROCID", "0",          "SLURM_NTASKS", "2",    "RANK",
                                            "11",           "WORLD_SIZE", "16",           nullptr};
constexpr const char* kInvalid[] = {"RANK", "-1", "OMPI_COMM_WORLD_RANK", "5", "OMPI_COMM_WORLD_SIZE", "4", nullptr};
constexpr const char* kNone[] = {nullptr};

TEST_CASE("rank and size of a process come from its innermost launcher, and are unknown if invalid") {
  const auto torchrun = launched_process(listed<kTorchrunInSlurm>);
  CHECK(torchrun.rank == 11);
  CHECK(torchrun.size == 16);
  const auto invalid = launched_process(listed<kInvalid>);
  CHECK(invalid.rank == 5);
  CHECK(invalid.size == -1);
  CHECK(launched_process(listed<kNone>).rank == -1);
}

}  // namespace
}  // namespace busbw::trace
