#pragma once
// ADD A BACKEND HERE: the interface between a backend and the measuring loop. A backend knows no options, writes no
// output and does not measure host time, except for a trace: the host backend can wrap its communicators in ones that
// record operations with host times. A process creates one Backend before it forks; each rank gets a Communicator.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/communicator_lifecycle.hpp"
#include "common/values/types.hpp"
#include "rendezvous/team/team.hpp"
#include "values/algorithm_choice.hpp"
#include "values/backend_traits.hpp"
#include "values/library_info.hpp"
#include "values/memory_use.hpp"
#include "values/phase.hpp"
#include "verify/data_stream.hpp"
#include "verify/mismatch.hpp"
#include "verify/reduction_values.hpp"

namespace busbw {

/// The device that one rank runs on.
struct Device {
  int index = 0;       // device index on its machine
  std::string bus_id;  // "0000:0f:00", "cpu"
  std::string name;    // "NVIDIA H200"
};

/// Network device that carries a rank's traffic to other hosts.
struct NetworkPort {
  std::string name;  // "mlx5_0", "eth1"
  int position = 0;  // index among the ports of its host; hosts with the same hardware have the same order
  std::optional<int> numa_node = {};         // of the network device; nothing if unknown
  std::optional<int> device_numa_node = {};  // of the rank's GPU; nothing if unknown

  static auto members(auto& self) { return std::tie(self.name, self.position, self.numa_node, self.device_numa_node); }
};

/// Something that a backend cannot do: the reason and the remedy, which messages join to one sentence.
struct Limitation {
  std::string reason;  // "NCCL 2.18.3 (/usr/lib/libnccl.so.2) has no 8-bit floats"
  std::string remedy;  // "use 2.24 or later"
};

/// Reason why a rank could not connect to the others; see Communicator::reconnect.
struct ConnectionProblem {
  std::string reason = {};  // empty if it connected
  /// True if the rank only noticed that another one failed or did not answer, so another rank may know the cause.
  bool follows_from_peer = false;

  static auto members(auto& self) { return std::tie(self.reason, self.follows_from_peer); }
};

/// One send or one receive of Communicator::exchange.
struct Transfer {
  int peer = 0;
  std::byte* data = nullptr;  // sends only read it
  std::size_t count = 0;      // elements
  /// True if the peer also exchanges data with other ranks. They may delay this transfer.
  bool is_peer_busy = false;
};

/// Makes the Transfer of a send, which only reads `data`.
inline Transfer make_send(int peer, const std::byte* data, std::size_t count, bool is_peer_busy = false) {
  return {peer, const_cast<std::byte*>(data), count, is_peer_busy};
}

/// One write of Communicator::put into the receive buffer of a peer.
struct Put {
  int peer = 0;
  const std::byte* data = nullptr;
  /// Address in this rank's receive buffer. The peer gets the data at the same offset of its own receive buffer.
  std::byte* destination = nullptr;
  std::size_t count = 0;  // elements
  int context = 0;        // of NCCL, which orders puts only within a context; not used by other backends
};

/// One write of a peer that Communicator::put waits for.
struct AwaitedPut {
  int source = 0;
  int context = 0;  // as in the Put of the source
};

/// Reason why ranks cannot use Communicator::put.
struct PutObstacle {
  std::string reason;  // with a remedy
  bool is_of_machine = false;  // true: the GPUs or the network cannot do puts; false: other flags exclude puts
};

/// Timestamps between the operations of one communicator, taken with the device's own clock.
class Timestamps {
 public:
  virtual ~Timestamps() = default;
  /// Discards all timestamps and reserves `count` of them.
  virtual void reset(std::size_t count) = 0;
  /// Sets a timestamp to the time at which all operations issued so far have ended.
  virtual void set(std::size_t index) = 0;
  /// Seconds between two timestamps. The device must have reached both.
  virtual double seconds_between(std::size_t from, std::size_t to) const = 0;
};

/// Operations that were captured once and can be issued as a whole any number of times.
class OperationGraph {
 public:
  virtual ~OperationGraph() = default;
  /// Issues all operations of the graph, in order with the communicator's other operations.
  virtual void issue() = 0;
};

/// Holds operations back on the device, so that all ranks can issue theirs before any of them starts.
class Gate {
 public:
  virtual ~Gate() = default;
  /// Holds back all that this rank issues from now on, until `open`.
  virtual void close() = 0;
  virtual void open() = 0;
  /// Maximum number of operations and timestamps behind a closed gate. Issuing more could block the host, which then
  /// never opens the gate.
  virtual std::size_t capacity() const = 0;
};

/// Clock state of a device while it works. Values that the device does not report are empty.
struct DeviceClockState {
  std::optional<double> clock_hz;             // current clock of its processors
  std::optional<double> max_clock_hz;         // highest clock of its processors
  std::vector<std::string> throttle_reasons;  // reasons for a lower clock, such as "power limit"

  static auto members(auto& self) { return std::tie(self.clock_hz, self.max_clock_hz, self.throttle_reasons); }
};

/// One rank's handle to one communicator, with a send and a receive buffer. All ranks make the same calls in the same
/// order (operations, timestamps, captures, gate closings, `synchronize`), because one rank's thread may issue for
/// others. Operations run in order. `synchronize` returns when all issued operations have finished. Counts are in
/// elements and have the meaning of NCCL's API. Buffers may be in place as NCCL defines it.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// The rank's buffers. Each has the length `buffer_bytes` of `Backend::reserve`.
  virtual std::span<std::byte> send_buffer() = 0;
  virtual std::span<std::byte> recv_buffer() = 0;

  virtual void all_reduce(const std::byte* send, std::byte* recv, std::size_t count, Dtype, Redop) = 0;
  virtual void reduce(const std::byte* send, std::byte* recv, std::size_t count, Dtype, Redop, int root) = 0;
  virtual void reduce_scatter(const std::byte* send, std::byte* recv, std::size_t recv_count, Dtype, Redop) = 0;
  virtual void all_gather(const std::byte* send, std::byte* recv, std::size_t send_count, Dtype) = 0;
  virtual void broadcast(const std::byte* send, std::byte* recv, std::size_t count, Dtype, int root) = 0;
  virtual void gather(const std::byte* send, std::byte* recv, std::size_t send_count, Dtype, int root) = 0;
  virtual void scatter(const std::byte* send, std::byte* recv, std::size_t recv_count, Dtype, int root) = 0;
  /// Sends `count` elements to each rank and receives `count` from each.
  virtual void alltoall(const std::byte* send, std::byte* recv, std::size_t count, Dtype) = 0;
  /// Runs a group of sends and receives that progress together, at most one of each per peer. All ranks call it equally
  /// often; a rank that does not take part passes empty lists.
  virtual void exchange(std::span<const Transfer> sends, std::span<const Transfer> recvs, Dtype) = 0;
  /// From now on, `exchange` gives up lost peers. If no data moves for `limit_s`, it also gives up peers that this rank
  /// waits for. It may give up other peers of the same call, too. Over sockets, a peer that also waits for other ranks
  /// (`is_peer_busy`) gets 1.5 times the limit. Later calls of `exchange` skip the given up peers.
  /// Returns false if this communicator cannot give up peers. Its waits then end only with the job.
  virtual bool give_up_peers_after(double /*limit_s*/) { return false; }
  /// Returns the peers that `exchange` has given up, with the reason of each.
  virtual std::vector<std::pair<int, std::string>> failed_peers() const { return {}; }
  /// Connects the ranks of a communicator for flows, and connects them again after a rank was lost or a peer was given
  /// up. `living`: the ranks of this communicator to connect, in their order. All of them call `reconnect`, and keep
  /// their numbers. `exchange` then works between them, except with the peers that this rank cannot reach
  /// (`failed_peers`).
  /// If this rank cannot be connected at all, returns the problem. Does nothing if ranks need no connections.
  virtual ConnectionProblem reconnect(Team& /*living*/) { return {}; }
  /// Why ranks cannot write into each other's receive buffers with `put`. Nothing if they can.
  virtual std::optional<PutObstacle> put_obstacle() const {
    return PutObstacle{
        "ranks cannot write into memory of other ranks here: they may be on other machines, or a trace "
        "is recorded; drop the flag"};
  }
  /// Writes into receive buffers of peers, each write with a signal, then waits for the signals of all writes in
  /// `awaited`. Their data has then arrived. Receive buffers must be ready before any rank calls it, because a write
  /// does not wait for its receiver. Every rank that puts or receives must call it. Call only without a
  /// `put_obstacle`.
  virtual void put(std::span<const Put> /*puts*/, std::span<const AwaitedPut> /*awaited*/, Dtype) {
    throw std::logic_error("put: this communicator has no one-sided writes");
  }
  /// Delays the operations issued from now on by `seconds`, as if the device computed. The delay begins after the
  /// operations issued before, or after the previous delay if `overlapped`. Only for a communicator with `timestamps`;
  /// without them the caller waits instead.
  virtual void delay(double /*seconds*/, bool /*overlapped*/) {
    throw std::logic_error("delay: this communicator has no device clock");
  }
  /// The operations issued from now on start after those that `other`, a communicator of the same rank, has issued so
  /// far. Does nothing if each call returns when its operation is done.
  virtual void wait_for(Communicator& /*other*/) {}
  /// Multiplies the matrix of `order` x `order` floats with itself, in order with the collectives, to keep the device's
  /// processors busy.
  virtual void compute_matrix_square(float* /*product*/, const float* /*matrix*/, std::size_t /*order*/) {
    throw std::logic_error("compute_matrix_square: this communicator cannot compute");
  }
  /// Copies within the rank's own memory, in order with the collectives.
  virtual void copy(std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  /// Operations between these two calls may start together, if the library supports it (ncclGroupStart).
  virtual void begin_group() {}
  virtual void end_group() {}
  /// Returns when all operations so far are issued to the device. They need not have finished.
  virtual void flush() {}
  virtual void synchronize() = 0;
  /// Timestamps by the clock of the device. Null if each call returns only when its operation is done, because the host
  /// clock can then time the call.
  virtual Timestamps* timestamps() { return nullptr; }
  /// Captures operations and timestamps without running them, until `end_capture` returns them as a graph. Call only if
  /// `can_capture`.
  virtual bool can_capture() const { return false; }
  virtual void begin_capture() { throw std::logic_error("begin_capture: this communicator cannot capture operations"); }
  virtual std::unique_ptr<OperationGraph> end_capture() {
    throw std::logic_error("end_capture: this communicator cannot capture operations");
  }
  /// Gate that holds the rank's operations back. Null if the communicator cannot hold them back.
  virtual Gate* gate() { return nullptr; }
  /// Current clock state of the rank's device, or nothing if unknown. Cheap enough to read before and after each batch.
  virtual std::optional<DeviceClockState> clock_state() { return std::nullopt; }
  /// Current memory use on the rank's device, or nothing if unknown.
  virtual std::optional<MemoryUse> memory() { return std::nullopt; }
  /// Observes the algorithms of this rank's operations until `end_observation`, which returns the distinct ones in
  /// their order. Empty if the library does not report them. Observed operations may take longer.
  virtual void begin_observation() {}
  virtual std::vector<AlgorithmChoice> end_observation() { return {}; }

  /// Writes `elements` elements of `stream`, from position `first` on, to `memory` of this rank.
  virtual void fill(std::byte* memory, const DataStream& stream, std::uint64_t first, std::size_t elements) = 0;
  /// Compares `memory` with the stream and adds the wrong elements to the mismatches. The index of a mismatch is
  /// `index_base` plus its offset in elements from `memory`.
  virtual void compare(const std::byte* memory, const DataStream& stream, std::uint64_t first, std::size_t elements,
                       std::uint64_t index_base, Mismatches&) = 0;

  /// Makes the calling thread the only one that issues operations and synchronizes, until another thread calls it.
  virtual void use_in_this_thread() {}
  /// Notes that the rank enters a phase, which errors name.
  virtual void enter(Phase) {}
};

/// A library or an own implementation that runs collectives. A process creates one object before it forks, and its
/// forks use it too.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const BackendTraits& traits() const = 0;
  /// Version of the measured library; the program's own on the host backend.
  virtual std::string version() const = 0;
  /// The library that runs the collectives, or nothing if the backend has no separate library file. May take some
  /// tenths of a second.
  virtual std::optional<LibraryInfo> library() const { return std::nullopt; }
  /// Version of the library headers that this program was built with. Empty if the backend needs none.
  virtual std::string headers() const { return {}; }
  /// Device of a rank. `index` counts the ranks of this process and its forks from 0.
  virtual Device device(int index) const = 0;
  /// The only network port of a rank, with `index` as in `device`. Nothing if the rank may use several.
  virtual std::optional<NetworkPort> network_port(int /*index*/) const { return std::nullopt; }
  /// Bytes that `ranks` ranks of this machine can allocate together.
  virtual std::size_t available_bytes(int ranks) const = 0;
  /// Reason why the backend cannot move elements of this type, or cannot reduce them if `reduces`. Nothing if it can.
  virtual std::optional<Limitation> limitation_of(Dtype, bool /*reduces*/) const { return std::nullopt; }
  /// Names the device with the least free memory for messages: "GPU 2 (0000:0f:00), which has the least free". Empty if
  /// all ranks share one memory.
  virtual std::string least_free_device() const { return {}; }
  /// Bytes that the backend itself needs for `ranks` ranks, in addition to their buffers.
  virtual std::size_t work_bytes(int ranks) const = 0;
  /// Facts for the record as name and value: the library and its path, the driver version.
  virtual std::vector<std::pair<std::string, std::string>> facts() const { return {}; }
  /// Warnings about the machine or the environment that distort results, each with a remedy.
  virtual std::vector<std::string> warnings() const { return {}; }
  /// Describes the state of the local ranks for a stalled job: the last operation of each and the library's errors. A
  /// monitoring thread calls it while the ranks hang.
  virtual std::vector<std::string> diagnosis() const { return {}; }
  /// Reserves two buffers of `buffer_bytes` for each of `ranks` ranks of this process and its forks. Call once, before
  /// processes are forked.
  virtual void reserve(int ranks, std::size_t buffer_bytes) = 0;
  /// Creates the communicator of the ranks of `group`, and returns this rank's handle. `world`: all ranks of the job;
  /// a rank's number in it is its world rank. A backend that was made for flows only prepares the communicator, without
  /// other ranks: Communicator::reconnect connects it.
  virtual std::unique_ptr<Communicator> connect(Team& world, Team& group) = 0;
  /// Creates a further communicator for the ranks of `group`, which all call this function. It uses the buffers of
  /// `first`, this rank's result of `connect`, which must outlive it. Operations of both communicators run at the same
  /// time, if calls return before their operations are done. `layer` numbers the further communicators of a rank from
  /// 1 on, so that the backend can keep their state apart. The maximum is the number of layers for which the backend
  /// was made. Communicators of one layer have no ranks in common.
  virtual std::unique_ptr<Communicator> connect_further(Team& /*world*/, Team& /*group*/, Communicator& /*first*/,
                                                        int /*layer*/) {
    throw std::logic_error("connect_further: this backend has one communicator for each rank");
  }
  /// Makes this rank's object that creates and ends communicators, for comm_ops. `world` must outlive it.
  virtual std::unique_ptr<CommunicatorLifecycle> make_lifecycle(Team& /*world*/) {
    throw std::logic_error("make_lifecycle: this backend measures no communicators");
  }
  /// Function of the library that a call measures: "ncclCommSplit". Empty if the backend has no library.
  virtual std::string lifecycle_function(CreationKind /*kind*/, LifecycleCall /*call*/) const { return {}; }
  /// Reason why comm_ops leaves the call out, such as a function that the library lacks. Empty if it makes the call.
  virtual std::string missing_lifecycle_call(CreationKind /*kind*/, LifecycleCall /*call*/) const { return {}; }
};

}  // namespace busbw
