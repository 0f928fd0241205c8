// Finds and loads the profiler plugin, and sorts NCCL's choices by the ranks that observe.
#include "backends/nccl/profiler/algorithm_observer.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

#include "common/libraries/opened_library.hpp"
#include "common/os/program_file.hpp"
#include "common/support/error.hpp"

namespace busbw {
namespace {

bool contains(std::span<const std::byte> buffer, const void* address) {
  return buffer.data() <= address && address < buffer.data() + buffer.size();
}

/// "ring" for "RING".
std::string lower_case_text(const char* name) {
  std::string text = name == nullptr ? "" : name;
  std::ranges::transform(text, text.begin(), [](unsigned char letter) { return std::tolower(letter); });
  return text;
}

}  // namespace

std::string find_profiler_plugin() {
  constexpr const char* kFile = "libbusbw_profiler.so";
  const std::filesystem::path bin_folder = std::filesystem::path(program_path().value_or("")).parent_path();
  const std::filesystem::path prefix = bin_folder.parent_path();
  std::vector<std::string> files = packaged_files(prefix, std::filesystem::path("busbw/lib") / kFile);
  files.push_back(bin_folder / kFile);      // build tree
  files.push_back(prefix / "lib" / kFile);  // cmake --install
  std::error_code error;
  std::erase_if(files, [&](const std::string& file) { return !std::filesystem::exists(file, error); });
  return files.empty() ? "" : files.front();
}

AlgorithmObserver::AlgorithmObserver(const std::string& plugin) {
  if (void* const library = dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL))
    set_observer_ = reinterpret_cast<SetCollectiveObserver*>(dlsym(library, kSetCollectiveObserver));
  if (set_observer_ == nullptr)
    throw EnvironmentError(fmt::format("{} is not busbw's profiler plugin; install busbw again", plugin));
  setenv(kProfilerVariable, plugin.c_str(), /*overwrite=*/1);
}

AlgorithmObserver::~AlgorithmObserver() {
  // If no rank observes, `end` has removed the observer. The plugin must then not be called: it writes NCCL's
  // activation mask, and NCCL may be unloaded.
  if (!ranks_.empty()) set_observer_(nullptr);
}

void AlgorithmObserver::begin(const void* rank_key, std::span<const std::byte> send_buffer,
                              std::span<const std::byte> recv_buffer) {
  const std::lock_guard lock(mutex_);
  ranks_[rank_key] = {send_buffer, recv_buffer};
  set_observer_(this);
}

std::vector<AlgorithmChoice> AlgorithmObserver::end(const void* rank_key) {
  const std::lock_guard lock(mutex_);
  std::vector<AlgorithmChoice> choices = std::move(ranks_[rank_key].choices);
  ranks_.erase(rank_key);
  if (ranks_.empty()) set_observer_(nullptr);
  return choices;
}

void AlgorithmObserver::on_collective(const EnqueuedCollective& collective) noexcept {
  const AlgorithmChoice choice{lower_case_text(collective.algorithm), lower_case_text(collective.protocol),
                               collective.channels};
  const std::lock_guard lock(mutex_);
  for (auto& [_, rank] : ranks_) {
    const bool is_of_rank = contains(rank.recv_buffer, collective.recv) || contains(rank.send_buffer, collective.recv);
    const bool is_known = std::ranges::find(rank.choices, choice) != rank.choices.end();
    if (is_of_rank && !is_known) rank.choices.push_back(choice);
  }
}

std::unique_ptr<AlgorithmObserver> make_algorithm_observer(Environment environment) {
  for (const char* variable : {kProfilerVariable, "BUSBW_TRACE_DIRECTORY"})
    if (nonempty_variable(environment, variable)) return nullptr;
  const std::string plugin = find_profiler_plugin();
  return plugin.empty() ? nullptr : std::make_unique<AlgorithmObserver>(plugin);
}

}  // namespace busbw
