#pragma once
// A rendezvous store in a folder that all members see, for example on a shared file system. Waits poll the folder and
// are slow, so RendezvousPoint uses it only to publish and find the address of process 0.
#include <functional>
#include <string>
#include <vector>

#include "rendezvous/store/store.hpp"
#include "rendezvous/store/store_state.hpp"

namespace busbw {

/// Each value is a file that only its owner can read; files of other users are rejected. A value set for one read is
/// removed by that read, all others by `clear`.
class FileStore final : public Store {
 public:
  /// Creates the folder if it is missing and `makes_folder` is true. Throws EnvironmentError if that fails. `limit_s`:
  /// longest wait in seconds. `on_wait` is called repeatedly during waits and may throw.
  FileStore(std::string folder, double limit_s, std::function<void()> on_wait = [] {}, bool makes_folder = true);

  void set(const std::string& key, std::span<const std::byte> value, int reads = 0) override;
  Bytes get(const std::string& key) override;
  std::vector<Bytes> get_all(std::span<const std::string> keys) override;
  std::int64_t add(const std::string& key, std::int64_t amount) override;
  void barrier(const std::string& key, int member, int members) override;
  void abort(const Failure& failure) noexcept override;
  std::optional<Failure> failure() override;
  /// Returns the value if it exists, without waiting.
  std::optional<Bytes> try_get(const std::string& key);
  /// Removes the values set by this object. Also removes the folder if this object created it and it is empty.
  void clear() noexcept;

 private:
  /// Returns the path of a file of the key. `suffix` selects the file: "" its value, "+" its sum, "@3" the arrival of
  /// member 3 at its barrier.
  std::string path_of(const std::string& key, const std::string& suffix = "") const;
  std::string failure_path() const;
  /// Calls `attempt` until it returns a value. Throws on an abort, and after the limit an error that names `request`.
  template <class Attempt>
  auto wait_for(const Attempt& attempt, const StoreRequest& request);

  std::string folder_;
  double limit_s_;
  std::function<void()> on_wait_;
  bool made_folder_ = false;
  std::vector<std::string> own_paths_;  // paths of the values set by this object
};

}  // namespace busbw
