#pragma once
// Layout of a trace file (schema/trace.md). The profiler plugin and the engine write it; src/busbw/traces/format.py
// reads it. The file is mapped into memory, so all stored records survive the death of the process.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace busbw::trace {

inline constexpr std::array<char, 8> kMagic{'b', 'u', 's', 'b', 'w', 't', 'r', 'c'};
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::size_t kHeaderBytes = 4096;
inline constexpr std::size_t kRecordBytes = 64;

/// First byte of a record. The writer stores this byte last, so a record of kind `none` was taken, but not completed.
enum class Kind : std::uint8_t { none = 0, operation = 1, communicator = 2, members = 3 };

/// Function that the rank called. The numbers are part of the format.
enum class Function : std::uint8_t {
  all_reduce = 0,
  all_gather = 1,
  reduce_scatter = 2,
  broadcast = 3,
  reduce = 4,
  gather = 5,
  scatter = 6,
  alltoall = 7,
  send = 8,
  recv = 9,
  put_signal = 10,
  signal = 11,
  wait_signal = 12,
  other = 255,
};

/// Numbers of ncclAlgo in the log lines of NCCL, plus the kernels outside that list.
enum class Algorithm : std::uint8_t {
  tree = 0,
  ring = 1,
  collnet_direct = 2,
  collnet_chain = 3,
  nvls = 4,
  nvls_tree = 5,
  pat = 6,
  symmetric = 7,
  copy_engine = 8,
  unknown = 255,
};

enum class Protocol : std::uint8_t { ll = 0, ll128 = 1, simple = 2, unknown = 255 };

// Values of a field that is unknown.
inline constexpr std::uint8_t kUnknownByte = 255;       // of datatype, redop and channels
inline constexpr std::uint16_t kUnknownIndex = 0xffff;  // of stream; no communicator has this number
inline constexpr std::uint32_t kUnknownCount = 0xffffffff;  // of network_steps

/// Bits of OperationRecord::flags.
enum Flag : std::uint8_t {
  kCaptured = 1,     // called while a CUDA graph was captured; it did not run then
  kGraphReplay = 2,  // issued by the launch of a graph
  kInPlace = 4,
  kIsInPlaceKnown = 8,  // without this bit, kInPlace says nothing
  kCountIsInBytes = 16,  // the source does not report the caller's datatype: count is in bytes, datatype is int8
  /// The computation before this operation overlaps the previous operation. Recordings do not show this, so only the
  /// generated traces of src/busbw/traces/models/ set it.
  kGapOverlapped = 32,
};

/// Clock of the device times.
enum class TraceClock : std::uint8_t {
  none = 0,
  host = 1,  // the clock of enqueue_ns
  gpu = 2,  // global timer of the GPU in ns, with an unknown offset to other clocks
  duration = 3,  // no clock: the start is 1, and only the difference to the end is known
};

/// One operation of one rank. Times of 0 are unknown; enqueue_ns begins at 1.
struct alignas(kRecordBytes) OperationRecord {
  std::atomic<Kind> kind;
  Function function;
  std::uint8_t datatype;  // number of ncclDataType_t, which is the order of busbw::Dtype
  std::uint8_t redop;  // number of ncclRedOp_t: sum, prod, max, min, avg
  std::uint16_t communicator;
  std::uint16_t stream;  // number in the order of appearance in this file
  std::int32_t peer;  // root, or the peer of a send or receive; -1: none or unknown
  std::uint32_t group;  // operations of one group have the same number; 0: not in a group
  std::uint64_t count;  // elements, as in the call of NCCL
  std::uint64_t enqueue_ns;  // time of the call, since Header::start_monotonic_ns
  /// Latest start over the channels, because the start that NCCL reports for a channel can be too early.
  std::atomic<std::uint64_t> device_start_ns;
  std::atomic<std::uint64_t> device_end_ns;  // latest end over the channels
  Algorithm algorithm;
  Protocol protocol;
  std::uint8_t channels;
  std::uint8_t flags;
  std::atomic<std::uint32_t> network_steps;  // transfers that the network proxy sends
  std::uint32_t thread;  // calling thread, numbered in the order of appearance in this file
  std::uint32_t reserved;
};
static_assert(sizeof(OperationRecord) == kRecordBytes);

/// A communicator that has a rank in this process.
struct alignas(kRecordBytes) CommunicatorRecord {
  std::atomic<Kind> kind;
  std::uint8_t has_id;  // 1: all ranks of the communicator have this id, and no other communicator has it; 0: unknown
  std::uint16_t communicator;  // index that operations use
  std::int32_t rank;  // -1: unknown
  std::int32_t size;  // -1: unknown, before NCCL 2.27
  std::int32_t nodes;  // -1: unknown
  std::uint64_t id;
  std::array<char, 40> name;  // padded with NUL; may be empty
};
static_assert(sizeof(CommunicatorRecord) == kRecordBytes);

/// Ranks of the job that form a communicator, in the order of its ranks. Only importers write it.
struct alignas(kRecordBytes) MembersRecord {
  std::atomic<Kind> kind;
  std::uint8_t count;  // used elements of `members`
  std::uint16_t communicator;
  std::uint32_t first;  // rank in the communicator of the first element
  std::array<std::int32_t, 14> members;
};
static_assert(sizeof(MembersRecord) == kRecordBytes);

/// First kHeaderBytes of the file. Texts are padded with NUL.
struct Header {
  std::array<char, 8> magic;
  std::uint32_t version;
  std::uint32_t header_bytes;
  /// Requested records: stored, incomplete and lost ones. After TraceFile::close only the records in the file.
  std::atomic<std::uint64_t> record_count;
  /// Records that were not stored: at the size limit, on a full disk, in a chunk that was reserved too late, after
  /// TraceFile::close, or with an unknown communicator.
  std::atomic<std::uint64_t> lost_count;
  std::uint64_t max_bytes;  // size limit of the file
  std::uint64_t start_realtime_ns;  // Unix time of start_monotonic_ns
  std::uint64_t start_monotonic_ns;
  std::int32_t pid;
  std::int32_t rank;  // of the process in its job, from the launcher; -1: unknown
  std::int32_t size;  // number of processes of the job; -1: unknown
  std::uint32_t nccl_version;  // 22809 for 2.28.9; 0: unknown
  TraceClock device_clock;
  std::uint8_t is_closed;  // 1: the process ended the file itself
  std::uint8_t plugin_interface;  // version of ncclProfiler that NCCL used; 0: none
  std::array<std::uint8_t, 5> reserved;
  std::array<char, 256> host;
  std::array<char, 256> program;  // file name of the executable, without arguments
  std::array<char, 128> producer;  // "busbw-profiler 0.1.0", "busbw-engine 0.1.0", "import kineto"
};
static_assert(sizeof(Header) <= kHeaderBytes);

}  // namespace busbw::trace
