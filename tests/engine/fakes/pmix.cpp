// A fake PMIx library. The tests let its functions fail or answer late. It calls back from threads of its own, as the
// real one does, and the text of a value is valid only during the callback.
#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/launcher_store/pmix_interface.hpp"

using busbw::pmix::Info;
using busbw::pmix::OperationDone;
using busbw::pmix::Process;
using busbw::pmix::Status;
using busbw::pmix::Value;
using busbw::pmix::ValueFound;

namespace {

constexpr Status kFailed = -1;
constexpr Status kFailedLater = -2;

std::mutex mutex;
std::condition_variable released;
std::string held;     // function that does not answer
std::string failing;  // function that fails at once, or with "later " before its name in its callback
std::map<std::string, std::string> published;
std::vector<std::function<void()>> held_callbacks;
std::vector<std::thread> threads;
int waiting_calls = 0;
int finalize_count = 0;

Status status_of(const std::string& function) { return failing == function ? kFailed : busbw::pmix::kSuccess; }
Status callback_status_of(const std::string& function) {
  return failing == "later " + function ? kFailedLater : busbw::pmix::kSuccess;
}

void call_back(const std::string& function, std::function<void()> callback) {
  if (held == function)
    held_callbacks.push_back(std::move(callback));
  else
    threads.emplace_back(std::move(callback));
}

}  // namespace

extern "C" {

/// Begins a test. `held_function` does not answer before fake_pmix_release.
void fake_pmix_begin(const char* held_function, const char* failing_function) {
  const std::lock_guard lock(mutex);
  held = held_function;
  failing = failing_function;
  published.clear();
  finalize_count = 0;
}

/// Lets held functions answer, and returns when all callbacks have been made.
void fake_pmix_release() {
  std::vector<std::thread> ending;
  {
    std::unique_lock lock(mutex);
    held.clear();
    for (auto& callback : held_callbacks) threads.emplace_back(std::move(callback));
    held_callbacks.clear();
    released.notify_all();
    released.wait(lock, [] { return waiting_calls == 0; });
    ending.swap(threads);
  }
  for (std::thread& thread : ending) thread.join();
}

int fake_pmix_finalize_count() {
  const std::lock_guard lock(mutex);
  return finalize_count;
}

Status PMIx_Init(Process* process, Info*, std::size_t) {
  std::unique_lock lock(mutex);
  ++waiting_calls;
  released.wait(lock, [] { return held != "PMIx_Init"; });
  --waiting_calls;
  released.notify_all();
  std::strcpy(process->name_space, "job");
  process->rank = 7;
  return status_of("PMIx_Init");
}

Status PMIx_Put(std::uint8_t, const char* key, Value* value) {
  const std::lock_guard lock(mutex);
  published[key] = value->text;
  return status_of("PMIx_Put");
}

Status PMIx_Commit() {
  const std::lock_guard lock(mutex);
  return status_of("PMIx_Commit");
}

Status PMIx_Fence_nb(const Process*, std::size_t, const Info*, std::size_t, OperationDone done, void* context) {
  const std::lock_guard lock(mutex);
  if (const Status status = status_of("PMIx_Fence_nb")) return status;
  const Status status = callback_status_of("PMIx_Fence_nb");
  call_back("PMIx_Fence_nb", [=] { done(status, context); });
  return busbw::pmix::kSuccess;
}

Status PMIx_Get_nb(const Process* process, const char* key, const Info*, std::size_t, ValueFound found, void* context) {
  const std::lock_guard lock(mutex);
  if (const Status status = status_of("PMIx_Get_nb")) return status;
  const bool is_process_0 = process->rank == 0 && std::strcmp(process->name_space, "job") == 0;
  const Status status = is_process_0 ? callback_status_of("PMIx_Get_nb") : kFailed;
  call_back("PMIx_Get_nb", [=, text = published[key]]() mutable {
    Value value;
    value.type = busbw::pmix::kString;
    value.text = text.data();
    found(status, status == busbw::pmix::kSuccess ? &value : nullptr, context);
    std::ranges::fill(text, '?');
  });
  return busbw::pmix::kSuccess;
}

Status PMIx_Finalize(const Info*, std::size_t) {
  const std::lock_guard lock(mutex);
  ++finalize_count;
  return busbw::pmix::kSuccess;
}

const char* PMIx_Error_string(Status status) { return status == kFailed ? "FAILED" : "FAILED-LATER"; }
}
