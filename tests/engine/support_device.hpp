#pragma once
// A fake device for tests of the measuring loops. Calls return before their operations are done, and operations can be
// captured and gated. Each takes as long as the test sets, by the device's own clock.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "collectives/collective.hpp"

namespace busbw {

/// Times of a fake device. All operations take the same.
struct MadeUpDevice {
  double operation_s = 1;
  double launch_s = 0;  // wait of the device for each operation that is neither gated nor captured
  double late_s = 0;  // extra time of the first operation after each wait, as with late ranks
  std::size_t room = 40;
  bool has_gate = true;
  std::optional<DeviceClockState> condition = std::nullopt;
  double host_wait_s = 0;  // host time of waiting for the device
};

/// One rank on such a device. `log` has one word per call: "run", "copy", "stamp 2", "close", "open", "begin", "end",
/// "issue", "group", "grouped", "flush", "wait", "ask", "observe", "report".
class DeviceCommunicator : public Communicator, public Timestamps, public Gate {
 public:
  DeviceCommunicator(const MadeUpDevice& device, std::size_t buffer_bytes, int size = 1)
      : device_(device), size_(size), send_(buffer_bytes), recv_(buffer_bytes) {}

  std::vector<std::string> log;
  std::function<void()> when_flushed;
  std::size_t max_behind_gate = 0;  // operations and timestamps

  int count(const std::string& word) const {
    int found = 0;
    for (const std::string& each : log) found += each == word;
    return found;
  }

  int rank() const override { return 0; }
  int size() const override { return size_; }
  std::span<std::byte> send_buffer() override { return send_; }
  std::span<std::byte> recv_buffer() override { return recv_; }
  void all_reduce(const std::byte*, std::byte*, std::size_t, Dtype, Redop) override { operate(); }
  void reduce(const std::byte*, std::byte*, std::size_t, Dtype, Redop, int) override { operate(); }
  void reduce_scatter(const std::byte*, std::byte*, std::size_t, Dtype, Redop) override { operate(); }
  void all_gather(const std::byte*, std::byte*, std::size_t, Dtype) override { operate(); }
  void broadcast(const std::byte*, std::byte*, std::size_t, Dtype, int) override { operate(); }
  void gather(const std::byte*, std::byte*, std::size_t, Dtype, int) override { operate(); }
  void scatter(const std::byte*, std::byte*, std::size_t, Dtype, int) override { operate(); }
  void alltoall(const std::byte*, std::byte*, std::size_t, Dtype) override { operate(); }
  void exchange(std::span<const Transfer>, std::span<const Transfer>, Dtype) override { operate(); }
  void copy(std::byte*, const std::byte*, std::size_t) override { log.push_back("copy"); }
  void fill(std::byte*, const DataStream&, std::uint64_t, std::size_t) override { log.push_back("fill"); }
  void compare(const std::byte*, const DataStream&, std::uint64_t, std::size_t, std::uint64_t, Mismatches&) override {}
  void begin_group() override { log.push_back("group"); }
  void end_group() override { log.push_back("grouped"); }
  void flush() override {
    log.push_back("flush");
    if (when_flushed) when_flushed();
  }
  void synchronize() override {
    log.push_back("wait");
    if (is_closed_) throw std::logic_error("waiting for what is behind a closed gate");
    is_first_ = true;
    std::this_thread::sleep_for(std::chrono::duration<double>(device_.host_wait_s));
  }

  Timestamps* timestamps() override { return this; }
  void reset(std::size_t count) override { at_.resize(std::max(count, at_.size())); }
  void set(std::size_t index) override {
    log.push_back("stamp " + std::to_string(index));
    later([this, index] { at_.at(index) = now_s_; });
  }
  double seconds_between(std::size_t from, std::size_t to) const override { return at_.at(to) - at_.at(from); }

  bool can_capture() const override { return true; }
  void begin_capture() override {
    log.push_back("begin");
    recorded_.emplace();
  }
  std::unique_ptr<OperationGraph> end_capture() override {
    log.push_back("end");
    auto recording = std::make_unique<MadeUpRecording>(*this, std::move(*recorded_));
    recorded_.reset();
    return recording;
  }

  Gate* gate() override { return device_.has_gate ? this : nullptr; }
  void close() override {
    log.push_back("close");
    is_closed_ = true;
  }
  void open() override {
    log.push_back("open");
    is_closed_ = false;
    max_behind_gate = std::max(max_behind_gate, held_.size());
    for (const auto& each : std::exchange(held_, {})) each();
  }
  std::size_t capacity() const override { return device_.room; }
  std::optional<DeviceClockState> clock_state() override {
    log.push_back("ask");
    return device_.condition;
  }
  void begin_observation() override { log.push_back("observe"); }
  std::vector<AlgorithmChoice> end_observation() override {
    log.push_back("report");
    return {{"ring", "simple", 2}};
  }

 private:
  using Work = std::vector<std::function<void()>>;

  class MadeUpRecording final : public OperationGraph {
   public:
    MadeUpRecording(DeviceCommunicator& on, Work work) : on_(on), work_(std::move(work)) {}
    void issue() override {
      on_.log.push_back("issue");
      on_.later([this] {
        for (const auto& each : work_) each();
      });
    }

   private:
    DeviceCommunicator& on_;
    Work work_;
  };

  void operate() {
    log.push_back("run");
    const double waits_s = recorded_ || is_closed_ ? 0 : device_.launch_s + (is_first_ ? device_.late_s : 0);
    if (!recorded_ && !is_closed_) is_first_ = false;
    later([this, waits_s] { now_s_ += waits_s + device_.operation_s; });
  }
  void later(std::function<void()> what) {
    if (recorded_) return recorded_->push_back(std::move(what));
    if (is_closed_) return held_.push_back(std::move(what));
    what();
  }

  MadeUpDevice device_;
  int size_;
  std::vector<std::byte> send_;
  std::vector<std::byte> recv_;
  double now_s_ = 0;
  std::vector<double> at_;
  bool is_closed_ = false;
  bool is_first_ = true;
  Work held_;
  std::optional<Work> recorded_;
};

}  // namespace busbw
