#pragma once
// ADD A BACKEND HERE: what a backend gives to the measuring loop. It knows neither options nor output nor time.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/values/types.hpp"
#include "rendezvous/team/team.hpp"
#include "values/library_info.hpp"
#include "values/phase.hpp"
#include "verify/data_stream.hpp"
#include "verify/mismatch.hpp"
#include "verify/reduction_values.hpp"

namespace busbw {

/// What one rank runs on.
struct Device {
  int index = 0;       // on its machine
  std::string bus_id;  // "0000:0f:00", "cpu"
  std::string name;    // "NVIDIA H200"
};

/// Why a backend cannot do something, and what a person can do about it: two halves of a sentence.
struct Limitation {
  std::string why;     // "NCCL 2.18.3 (/usr/lib/libnccl.so.2) has no 8-bit floats"
  std::string remedy;  // "use 2.24 or later"
};

/// One side of a grouped point-to-point exchange.
struct Transfer {
  int peer = 0;
  std::byte* data = nullptr;  // sends only read it
  std::size_t count = 0;      // elements
};

/// Points in the order of one communicator's operations, and the time of the device's own clock between them.
class Timestamps {
 public:
  virtual ~Timestamps() = default;
  /// Forgets all stamps and makes room for `count` of them.
  virtual void reset(std::size_t count) = 0;
  /// Marks the end of all operations that were issued so far.
  virtual void set(std::size_t index) = 0;
  /// Seconds between two stamps, both of them reached.
  virtual double seconds_between(std::size_t from, std::size_t to) const = 0;
};

/// Operations that were recorded once, to be issued as a whole as often as wanted.
class OperationGraph {
 public:
  virtual ~OperationGraph() = default;
  /// Issues all of them, in the order of the communicator's operations.
  virtual void issue() = 0;
};

/// Holds operations back on the device, so that all ranks' can be issued before any of them starts.
class Gate {
 public:
  virtual ~Gate() = default;
  /// What this rank issues from here on waits until `open`.
  virtual void close() = 0;
  virtual void open() = 0;
  /// Operations and stamps that can be issued behind a closed gate; one more might wait for the gate, for ever.
  virtual std::size_t capacity() const = 0;
};

/// What a device says of itself at work. What it does not say is missing.
struct DeviceClockState {
  std::optional<double> clock_hz;       // of its processors, now
  std::optional<double> max_clock_hz;  // that they may reach
  std::vector<std::string> throttle_reasons;   // what holds the clock back, such as "power limit"; empty: nothing does
};

/// Where the memory of a rank's device went, in bytes; what cannot be told is missing. Others may take and give memory
/// in the same moment, so a share can be negative.
struct MemoryUse {
  std::optional<std::int64_t> context_bytes;     // what the device's runtime took to begin with
  std::optional<std::int64_t> library_bytes;     // what joining the communicator took
  std::optional<std::int64_t> buffer_bytes;      // the rank's buffers, their registration included
  std::optional<std::int64_t> collective_bytes;  // what was taken since
};

/// One rank's membership in one communicator, with its two buffers. What is issued, of operations, stamps, recordings
/// and closings of the gate, and `synchronize` are called by all ranks in the same order: one may do it for others.
/// Operations are issued in order; `synchronize` returns when all that were issued have finished. Counts are in
/// elements and mean what they mean in NCCL's API; buffers may be in place as NCCL defines it.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// The rank's send and receive buffer, each `Backend::reserve`'s buffer_bytes long.
  virtual std::span<std::byte> send_buffer() = 0;
  virtual std::span<std::byte> recv_buffer() = 0;

  virtual void all_reduce(const std::byte* send, std::byte* recv, std::size_t count, Dtype, Redop) = 0;
  virtual void reduce(const std::byte* send, std::byte* recv, std::size_t count, Dtype, Redop, int root) = 0;
  virtual void reduce_scatter(const std::byte* send, std::byte* recv, std::size_t recv_count, Dtype, Redop) = 0;
  virtual void all_gather(const std::byte* send, std::byte* recv, std::size_t send_count, Dtype) = 0;
  virtual void broadcast(const std::byte* send, std::byte* recv, std::size_t count, Dtype, int root) = 0;
  virtual void gather(const std::byte* send, std::byte* recv, std::size_t send_count, Dtype, int root) = 0;
  virtual void scatter(const std::byte* send, std::byte* recv, std::size_t recv_count, Dtype, int root) = 0;
  /// `count` elements to and from each rank.
  virtual void alltoall(const std::byte* send, std::byte* recv, std::size_t count, Dtype) = 0;
  /// A group of sends and receives that progress together; at most one of each per peer. All ranks call it as often,
  /// those that take no part with nothing to move.
  virtual void exchange(std::span<const Transfer> sends, std::span<const Transfer> recvs, Dtype) = 0;
  /// Copies within the rank's own memory, in order with the collectives.
  virtual void copy(std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  /// Operations between these two may be started as one, where a library can do that.
  virtual void begin_group() {}
  virtual void end_group() {}
  /// What comes between these two makes one `result`, of which the later operations send on what the earlier ones
  /// brought. Faults made for tests strike it once it is whole.
  virtual void begin_multi_step() {}
  virtual void end_multi_step(std::span<std::byte> /*result*/, Dtype) {}
  /// Returns when all operations so far are on their way to the device; they need not have finished.
  virtual void flush() {}
  virtual void synchronize() = 0;
  /// Where operations go on after their call has returned, the clock of the device that runs them; null where a call
  /// returns when its operation is done, so that the host's clock tells.
  virtual Timestamps* stamps() { return nullptr; }
  /// Operations and stamps from here on are kept and not run, until `end_recording` hands them out. Only where
  /// `can_record`.
  virtual bool can_capture() const { return false; }
  virtual void begin_capture() { throw std::logic_error("begin_recording: this communicator cannot record"); }
  virtual std::unique_ptr<OperationGraph> end_capture() {
    throw std::logic_error("end_recording: this communicator cannot record");
  }
  /// Null where an operation starts when it is called.
  virtual Gate* gate() { return nullptr; }
  /// Of the rank's device, now; cheap enough to be asked before and after each batch. Missing where nothing tells.
  virtual std::optional<DeviceClockState> condition() { return std::nullopt; }
  /// Of the rank's device, now. Missing where nothing tells.
  virtual std::optional<MemoryUse> memory() { return std::nullopt; }

  /// Writes `elements` elements of `stream` from position `first` on to the rank's memory at `at`.
  virtual void fill(std::byte* at, const DataStream& stream, std::uint64_t first, std::size_t elements) = 0;
  /// Compares; mismatch indices are `index_base` plus the offset from `at`.
  virtual void compare(const std::byte* at, const DataStream& stream, std::uint64_t first, std::size_t elements,
                       std::uint64_t index_base, Mismatches&) = 0;

  /// Where faults made for tests strike: the rank enters a phase.
  virtual void enter(Phase) {}
};

/// A way to run collectives. One object per job, made before any process is forked.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  virtual std::string version() const = 0;
  /// The library that does the work, where it is one of its own and known by its file. May take some tenths of a
  /// second.
  virtual std::optional<LibraryInfo> library() const { return std::nullopt; }
  /// The version of that library's headers that this program was built with; empty where it has none.
  virtual std::string headers() const { return {}; }
  /// What the rank runs on; `index` counts the ranks that this process, and what it forks, runs.
  virtual Device device(int index) const = 0;
  /// Bytes that `ranks` ranks of this machine may take together.
  virtual std::size_t available_bytes(int ranks) const = 0;
  /// Why it cannot move elements of that type, or cannot reduce them where that is asked for; missing where it can.
  virtual std::optional<Limitation> limitation_of(Dtype, bool /*reduces*/) const { return std::nullopt; }
  /// Whose memory is the least, where ranks have memories of their own: "GPU 2 (0000:0f:00), which has the least free".
  /// Empty where all share one.
  virtual std::string min_free_device() const { return {}; }
  /// Bytes that the backend itself needs for `ranks` ranks beside their buffers.
  virtual std::size_t work_bytes(int ranks) const = 0;
  /// Facts for the record: which library from where, which driver.
  virtual std::vector<std::pair<std::string, std::string>> facts() const { return {}; }
  /// What of the machine or the environment makes results other than one would expect, each with what to do.
  virtual std::vector<std::string> warnings() const { return {}; }
  /// Sentences about what the ranks here are doing, for when a job does not get on: the last operation of each, what
  /// the library says of errors. Called from a thread that is none of theirs, while they hang.
  virtual std::vector<std::string> diagnosis() const { return {}; }
  /// Sets aside two buffers of `buffer_bytes` for each of `ranks` ranks that this process, and what it forks, runs;
  /// once, before processes are forked.
  virtual void reserve(int ranks, std::size_t buffer_bytes) = 0;
  /// Where faults made for tests strike before there is a communicator: the rank enters a phase.
  virtual void enter(Phase, int /*world_rank*/) {}
  /// Joins `group`, the members of one communicator, from the rank `world.rank()`.
  virtual std::unique_ptr<Communicator> connect(Team& world, Team& group) = 0;
};

}  // namespace busbw
