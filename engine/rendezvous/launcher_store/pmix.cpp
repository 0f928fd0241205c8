// Shares a text of process 0 through the PMIx daemon of a launcher such as Open MPI's mpirun. The library is the one
// that the daemon uses, opened at run time.
#include "rendezvous/launcher_store/shared_text.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "common/os/environment.hpp"
#include "common/os/process_status.hpp"
#include "common/os/ticker.hpp"
#include "rendezvous/launcher_store/pmix_interface.hpp"
#include "rendezvous/launcher_store/store_errors.hpp"

namespace busbw {
namespace {

constexpr std::string_view kPmix = "PMIx";
constexpr const char* kSystemLibrary = "libpmix.so.2";
constexpr const char* kLibraryVariable = "BUSBW_PMIX";
constexpr const char* kKey = "busbw-process-0";

/// Returns the PMIx library that a process has loaded. Empty if the process has loaded none, or belongs to another
/// user.
std::string library_loaded_by(long pid) {
  std::ifstream maps(fmt::format("/proc/{}/maps", pid));  // each line ends with the path of a mapped file, if any
  for (std::string line; std::getline(maps, line);)
    if (line.find("/libpmix.so") != line.npos) return line.substr(line.find('/'));
  return {};
}

/// Returns files that may be the launcher's library, in the order to try. The library that a daemon has loaded precedes
/// the system's, because the versions of daemon and library must not differ by much.
std::vector<std::string> candidate_libraries() {
  if (auto chosen = nonempty_variable(process_environment, kLibraryVariable)) return {*std::move(chosen)};
  std::vector<std::string> candidates;
  for (const Ancestor& ancestor : process_ancestors())
    if (std::string library = library_loaded_by(ancestor.pid); !library.empty())
      candidates.push_back(std::move(library));
  candidates.emplace_back(kSystemLibrary);
  return candidates;
}

/// Sets `function` to the library's function `name`. Throws EnvironmentError if the library has no such function.
template <class Function>
void find_function(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function) throw unusable_store_error(kPmix, fmt::format("the library has no function {}", name));
}

/// Opens the library, which stays loaded.
pmix::Functions open_library() {
  void* library = nullptr;
  std::string problem;
  for (const std::string& candidate : candidate_libraries()) {
    library = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library) break;
    problem = dlerror();
  }
  if (!library)
    throw unusable_store_error(
        kPmix, fmt::format("{}; install libpmix, or name the launcher's library with {}", problem, kLibraryVariable));
  pmix::Functions functions;
  find_function(library, "PMIx_Init", functions.Init);
  find_function(library, "PMIx_Put", functions.Put);
  find_function(library, "PMIx_Commit", functions.Commit);
  find_function(library, "PMIx_Fence_nb", functions.Fence_nb);
  find_function(library, "PMIx_Get_nb", functions.Get_nb);
  find_function(library, "PMIx_Finalize", functions.Finalize);
  find_function(library, "PMIx_Error_string", functions.Error_string);
  return functions;
}

/// Result of a function that calls back from a thread of the library. The callback shares its ownership, because the
/// library may call back after this process has stopped waiting.
struct PendingResult {
  std::atomic<bool> is_done = false;
  pmix::Status status = pmix::kSuccess;
  std::string text;  // of the value, if the function returns one
};
using SharedResult = std::shared_ptr<PendingResult>;

void finish(const SharedResult& result, pmix::Status status, std::string text) {
  result->status = status;
  result->text = std::move(text);
  result->is_done = true;
}

/// Returns the result in the context of a callback, and deletes the context, which is a copy of the shared pointer.
SharedResult take_context(void* context) {
  const std::unique_ptr<SharedResult> owner(static_cast<SharedResult*>(context));
  return *owner;
}

void on_operation_done(pmix::Status status, void* context) { finish(take_context(context), status, {}); }

void on_value_found(pmix::Status status, pmix::Value* value, void* context) {
  const bool is_text = status == pmix::kSuccess && value && value->type == pmix::kString && value->text;
  finish(take_context(context), status, is_text ? value->text : "");
}

/// This process as a client of the launcher's daemon. The destructor disconnects, because the launcher takes the end of
/// a connected process for a failure of the job.
class PmixClient {
 public:
  explicit PmixClient(const StoreWait& wait) : wait_(wait), functions_(open_library()) {
    // PMIx_Init waits without limit for a daemon that is stopped. So it has a thread of its own, which may never end
    // and shares the ownership of its results.
    const auto result = std::make_shared<PendingResult>();
    const auto own_process = std::make_shared<pmix::Process>();
    std::thread([init = functions_.Init, result, own_process] {
      finish(result, init(own_process.get(), nullptr, 0), {});
    }).detach();
    wait_for(*result, "PMIx_Init");
    own_process_ = *own_process;
  }
  ~PmixClient() { functions_.Finalize(nullptr, 0); }
  PmixClient(const PmixClient&) = delete;
  PmixClient& operator=(const PmixClient&) = delete;

  void publish(const std::string& text) {
    std::string content = text;
    pmix::Value value;
    value.type = pmix::kString;
    value.text = content.data();
    require(functions_.Put(pmix::kGlobal, kKey, &value), "PMIx_Put");
    require(functions_.Commit(), "PMIx_Commit");
  }

  /// Waits for all processes, and distributes their published texts.
  void wait_for_all() {
    pmix::Info collect;
    std::strcpy(collect.key, pmix::kCollectData);
    collect.value.type = pmix::kBool;
    collect.value.flag = true;
    call("PMIx_Fence_nb",
         [&](void* context) { return functions_.Fence_nb(nullptr, 0, &collect, 1, on_operation_done, context); });
  }

  /// Returns the text that process 0 published.
  std::string text_of_process_0() {
    pmix::Process process_0 = own_process_;
    process_0.rank = 0;
    return call("PMIx_Get_nb", [&](void* context) {
      return functions_.Get_nb(&process_0, kKey, nullptr, 0, on_value_found, context);
    });
  }

 private:
  void require(pmix::Status status, const char* function) const {
    if (status != pmix::kSuccess)
      throw unusable_store_error(kPmix, fmt::format("{} failed: {}", function, functions_.Error_string(status)));
  }

  /// Starts a function and waits for its callback. Returns the text of the value, if the function returns one.
  template <class Start>
  std::string call(const char* function, Start start) {
    const auto result = std::make_shared<PendingResult>();
    auto context = std::make_unique<SharedResult>(result);
    require(start(context.get()), function);
    context.release();  // the callback deletes it
    wait_for(*result, function);
    return result->text;
  }

  /// Waits until `function` has called back. Throws EnvironmentError if the function has failed.
  void wait_for(const PendingResult& result, const char* function) const {
    for (int tick = 0; !result.is_done; ++tick) {
      wait_.on_tick();
      if (tick >= wait_.limit_ticks) throw store_timeout_error(kPmix, wait_.limit_ticks);
      sleep_tick();
    }
    require(result.status, function);
  }

  const StoreWait& wait_;
  const pmix::Functions functions_;
  pmix::Process own_process_;
};

}  // namespace

std::string share_text_by_pmix(int process, const std::string& text, const StoreWait& wait) {
  PmixClient client(wait);
  if (process == 0) client.publish(text);
  client.wait_for_all();
  return process == 0 ? text : client.text_of_process_0();
}

}  // namespace busbw
