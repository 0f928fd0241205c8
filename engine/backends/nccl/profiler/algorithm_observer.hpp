#pragma once
// Observes which algorithms NCCL chooses, through busbw's profiler plugin, which NCCL loads into this process. While no
// rank observes, NCCL reports nothing, so that timed operations do not pay for it.
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "common/libraries/collective_observer.hpp"
#include "common/os/environment.hpp"
#include "values/algorithm_choice.hpp"

namespace busbw {

/// Variable that names a profiler plugin to NCCL.
inline constexpr const char* kProfilerVariable = "NCCL_PROFILER_PLUGIN";

/// Returns the plugin that was installed with this program. Empty if none is found.
std::string find_profiler_plugin();

/// Observes on behalf of several ranks. Any thread may call `begin` and `end`.
class AlgorithmObserver final : private CollectiveObserver {
 public:
  /// Loads the plugin, and names it to NCCL by the variable. Create it before the first communicator, before forks and
  /// before threads that read variables. Throws EnvironmentError if the file is no such plugin.
  explicit AlgorithmObserver(const std::string& plugin);
  ~AlgorithmObserver();
  AlgorithmObserver(const AlgorithmObserver&) = delete;
  AlgorithmObserver& operator=(const AlgorithmObserver&) = delete;

  /// Starts to observe the operations that write into these buffers of a rank. `rank_key`: any address that identifies
  /// the rank.
  void begin(const void* rank_key, std::span<const std::byte> send_buffer, std::span<const std::byte> recv_buffer);
  /// Ends the observation of a rank. Returns the distinct choices for its operations in their order.
  std::vector<AlgorithmChoice> end(const void* rank_key);

 private:
  struct ObservedRank {
    std::span<const std::byte> send_buffer, recv_buffer;
    std::vector<AlgorithmChoice> choices = {};
  };
  void on_collective(const EnqueuedCollective&) noexcept override;

  SetCollectiveObserver* set_observer_ = nullptr;
  std::mutex mutex_;
  std::map<const void*, ObservedRank> ranks_;  // by rank_key; if not empty, this object is the plugin's observer
};

/// Returns null if no plugin is found, or if `environment` names another profiler or lets the process be recorded.
std::unique_ptr<AlgorithmObserver> make_algorithm_observer(Environment environment);

}  // namespace busbw
