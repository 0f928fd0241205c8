// Creates and maps the file, hands out record slots, and reserves disk space in chunks ahead of the records.
#include "common/trace/trace_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/os/program_file.hpp"
#include "common/os/provenance.hpp"
#include "common/support/error.hpp"
#include "common/support/printable.hpp"
#include "common/values/quantity.hpp"

namespace busbw::trace {
namespace {

// Large enough that a chunk is reserved long before it is used; small enough for a short pause of the reserving thread.
constexpr std::uint64_t kChunkBytes = std::uint64_t{512} << 10;
constexpr std::uint64_t kChunkRecords = kChunkBytes / kRecordBytes;
constexpr std::uint64_t kChunksAhead = 2;  // chunk n + 2 is reserved when chunk n is half used
constexpr const char* kMaxBytesVariable = "BUSBW_TRACE_MAX_BYTES";
constexpr std::uint64_t kMinSizeLimitBytes = 8 << 10;  // the header and 64 records

/// Returns the name for a file name. All characters except letters, digits, dots and hyphens become "_".
std::string file_name_text(std::string name) {
  std::ranges::replace_if(name, [](unsigned char c) { return std::isalnum(c) == 0 && c != '.' && c != '-'; }, '_');
  return name.empty() ? "unknown" : name;
}

template <std::size_t size>
void copy_text(std::array<char, size>& destination, std::string_view text) {
  text.copy(destination.data(), size - 1);
}

std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

std::size_t page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

/// Reserves disk space by writing zeros, for file systems without fallocate, such as some network file systems.
bool write_zeros(int file, std::uint64_t begin, std::uint64_t end) noexcept {
  static constexpr std::array<char, 64 << 10> kZeros{};
  for (std::uint64_t position = begin; position < end;) {
    const ssize_t written = pwrite(file, kZeros.data(), std::min<std::uint64_t>(kZeros.size(), end - position),
                                   static_cast<off_t>(position));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    position += static_cast<std::uint64_t>(written);
  }
  return true;
}

/// Reserves disk space for the range and extends the file to its end. Returns false and sets errno if this fails.
bool reserve_space(int file, std::uint64_t begin, std::uint64_t end) noexcept {
  // A file beyond this limit would raise SIGXFSZ, which ends the process.
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && end > limit.rlim_cur) {
    errno = EFBIG;
    return false;
  }
  int error = 0;
  do {
    error = fallocate(file, 0, static_cast<off_t>(begin), static_cast<off_t>(end - begin)) == 0 ? 0 : errno;
  } while (error == EINTR);
  if (error == EOPNOTSUPP || error == ENOSYS) return write_zeros(file, begin, end);
  return error == 0;
}

}  // namespace

std::optional<TraceSettings> trace_settings(Environment environment) {
  const auto directory = nonempty_variable(environment, "BUSBW_TRACE_DIRECTORY");
  if (!directory) return std::nullopt;
  TraceSettings settings{.directory = *directory};
  if (const auto text = nonempty_variable(environment, kMaxBytesVariable)) {
    const auto bytes = parse_size_bytes(*text);
    if (!bytes || *bytes < kMinSizeLimitBytes)
      throw UsageError(fmt::format("{}: not a size of at least 8K: {}; set it to a size such as 256M",
                                   kMaxBytesVariable, printable_value(*text)));
    settings.max_bytes = *bytes;
  }
  return settings;
}

TraceFile::TraceFile(const TraceSettings& settings, const TraceOrigin& origin) : pid_(getpid()) {
  const std::string host = full_host_name();
  create_file(settings.directory, host);
  max_records_ = (std::max<std::uint64_t>(settings.max_bytes, kHeaderBytes) - kHeaderBytes) / kRecordBytes;
  const std::uint64_t chunks = (max_records_ + kChunkRecords - 1) / kChunkRecords;
  is_reserved_ = std::make_unique<std::atomic<bool>[]>(chunks);
  map_file();
  header_ = new (base_) Header{};
  header_->version = kVersion;
  header_->header_bytes = kHeaderBytes;
  header_->max_bytes = settings.max_bytes;
  header_->start_realtime_ns = origin.start_realtime_ns;
  header_->start_monotonic_ns = origin.start_monotonic_ns;
  header_->pid = pid_;
  header_->rank = origin.rank;
  header_->size = origin.size;
  copy_text(header_->host, host);
  copy_text(header_->program, std::filesystem::path(program_path().value_or("")).filename().string());
  copy_text(header_->producer, origin.producer);
  header_->magic = kMagic;
  for (std::uint64_t chunk = 0; chunk < kChunksAhead; ++chunk) reserve_chunk(chunk);
  record_limit_ = max_records_;
}

EnvironmentError TraceFile::file_error(std::string_view action, int error) const {
  return EnvironmentError(fmt::format("cannot {} the trace file {}: {}; set BUSBW_TRACE_DIRECTORY to another directory",
                                      action, path_.string(), std::generic_category().message(error)));
}

void TraceFile::create_file(const std::filesystem::path& directory, const std::string& host) {
  std::error_code directory_error;
  std::filesystem::create_directories(directory, directory_error);  // open reports a failure
  // Containers with a common host name may have processes with equal numbers.
  constexpr int kMaxCopies = 1000;
  for (int copy = 1; !file_.is_open() && copy <= kMaxCopies; ++copy) {
    const std::string suffix = copy == 1 ? "" : fmt::format("-{}", copy);
    path_ = directory / fmt::format("{}-{}{}.trace", file_name_text(host), pid_, suffix);
    file_ = Descriptor(open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!file_.is_open() && errno != EEXIST) break;
  }
  if (!file_.is_open()) throw file_error("create", errno);
}

void TraceFile::map_file() {
  mapped_bytes_ = round_up(kHeaderBytes + max_records_ * kRecordBytes, page_bytes());
  const auto remove_and_throw = [this](std::string_view failed_action) {
    const int error = errno;
    unlink(path_.c_str());
    throw file_error(failed_action, error);
  };
  if (!reserve_space(file_.number(), 0, kHeaderBytes)) remove_and_throw("reserve space for");
  void* const base = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_.number(), 0);
  if (base == MAP_FAILED) remove_and_throw("map");
  base_ = static_cast<std::byte*>(base);
}

TraceFile::~TraceFile() {
  close();
  munmap(base_, mapped_bytes_);
}

void* TraceFile::take_slot() noexcept {
  const std::uint64_t record_limit = record_limit_.load(std::memory_order_relaxed);
  if (record_limit == 0) return nullptr;
  // All threads contend for the counter, so each record makes only one addition. The counter may therefore exceed the
  // limit; `close` corrects it.
  const std::uint64_t slot = header_->record_count.fetch_add(1, std::memory_order_relaxed);
  if (slot >= record_limit) return nullptr;
  const std::uint64_t chunk = slot / kChunkRecords;
  // Only the thread that takes the middle record of a chunk reserves a later chunk, so each chunk is reserved once.
  if (slot % kChunkRecords == kChunkRecords / 2) reserve_chunk(chunk + kChunksAhead);
  if (!is_reserved_[chunk].load(std::memory_order_acquire)) return nullptr;
  return base_ + kHeaderBytes + slot * kRecordBytes;
}

void TraceFile::count_lost() noexcept { header_->lost_count.fetch_add(1, std::memory_order_relaxed); }

void TraceFile::reserve_chunk(std::uint64_t chunk) noexcept {
  const std::uint64_t begin = kHeaderBytes + chunk * kChunkBytes;
  const std::uint64_t end = std::min(begin + kChunkBytes, kHeaderBytes + max_records_ * kRecordBytes);
  if (begin >= end) return;
  const int caller_errno = errno;
  if (reserve_space(file_.number(), begin, end)) {
#ifdef MADV_POPULATE_WRITE
    // Maps the pages now, so that writing a record causes no page fault. Linux before 5.14 does not support this; the
    // page faults then happen later.
    const std::uint64_t page = begin / page_bytes() * page_bytes();
    madvise(base_ + page, end - page, MADV_POPULATE_WRITE);
#endif
    is_reserved_[chunk].store(true, std::memory_order_release);
  }
  errno = caller_errno;
}

void TraceFile::close() noexcept {
  if (getpid() != pid_) return;  // a forked child must not end the file of its parent
  const std::uint64_t record_limit = record_limit_.exchange(0);
  if (record_limit == 0) return;  // the file is closed already
  // After a full disk the file may end before the last record. The file is never extended here, because that could
  // raise SIGXFSZ.
  struct stat status{};
  if (fstat(file_.number(), &status) != 0) return;
  const std::uint64_t stored_records = (static_cast<std::uint64_t>(status.st_size) - kHeaderBytes) / kRecordBytes;
  const std::uint64_t used_records = std::min({header_->record_count.load(), record_limit, stored_records});
  header_->record_count = used_records;
  header_->is_closed = 1;
  // Other threads may still write records. Pages beyond the end of the file would raise SIGBUS, so anonymous memory
  // replaces them before the file is cut.
  const std::uint64_t used_bytes = kHeaderBytes + used_records * kRecordBytes;
  const std::size_t kept_bytes = round_up(used_bytes, page_bytes());
  const std::size_t unused_bytes = mapped_bytes_ - kept_bytes;
  // If replacing or cutting fails, the file keeps unused space at its end, which readers ignore.
  if (unused_bytes > 0 && mmap(base_ + kept_bytes, unused_bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED)
    return;
  [[maybe_unused]] const int result = ftruncate(file_.number(), static_cast<off_t>(used_bytes));
}

}  // namespace busbw::trace
