// Stores the observer, which the program sets through an exported C function.
#include "profiler/observation.hpp"

#include "common/libraries/collective_observer.hpp"
#include "profiler/names.hpp"
#include "profiler/nccl_profiler.hpp"

namespace busbw::profiler {
namespace {

// NCCL calls the plugin without an object, so both variables belong to the process.
std::atomic<int*> events_mask = nullptr;
std::atomic<CollectiveObserver*> current_observer = nullptr;

}  // namespace

void set_events_mask(int* mask) noexcept { events_mask = mask; }

void report(const Task& task) noexcept {
  if (CollectiveObserver* const observer = current_observer.load(std::memory_order_acquire))
    observer->on_collective({.recv = task.receive,
                             .algorithm = name(task.algorithm),
                             .protocol = name(task.protocol),
                             .channels = task.channels});
}

}  // namespace busbw::profiler

// The exported function kSetCollectiveObserver (common/libraries/collective_observer.hpp). Without a mask, NCCL reports
// no events: either NCCL has not made a communicator yet, or the process is recorded.
extern "C" __attribute__((visibility("default"))) void busbw_set_collective_observer(
    busbw::CollectiveObserver* observer) {
  using namespace busbw::profiler;
  current_observer = observer;
  if (int* const mask = events_mask) std::atomic_ref<int>(*mask).store(observer == nullptr ? 0 : kObservedEvents);
}
