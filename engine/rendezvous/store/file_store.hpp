#pragma once
// A store in a folder that all members see, such as one on a shared file system: for where nothing else is known of
// each other. A wait looks at the folder again and again, so it is slow; processes use it to find process 0's address.
#include <functional>
#include <string>
#include <vector>

#include "rendezvous/store/store.hpp"
#include "rendezvous/store/store_state.hpp"

namespace busbw {

/// A value is a file, readable by its owner only; one that another user made is refused. Values with one read are
/// removed by it, all others stay until `clear`.
class FileStore final : public Store {
 public:
  /// Makes the folder where it is missing and `makes_folder` says so. Throws EnvironmentError. `limit_s`: the longest
  /// wait. `look` is called often while something is waited for, and may throw.
  FileStore(std::string folder, double limit_s, std::function<void()> look = [] {}, bool makes_folder = true);

  void set(const std::string& key, std::span<const std::byte> value, int reads = 0) override;
  Bytes get(const std::string& key) override;
  std::vector<Bytes> get_all(std::span<const std::string> keys) override;
  std::int64_t add(const std::string& key, std::int64_t amount) override;
  void barrier(const std::string& key, int member, int members) override;
  void abort(const Failure& why) noexcept override;
  std::optional<Failure> failure() override;
  /// What `get` would give, if it is there by now.
  std::optional<Bytes> try_get(const std::string& key);
  /// Removes the values that were set here, and the folder if it was made here and nothing else is in it.
  void clear() noexcept;

 private:
  /// `what` tells files of one key apart: "" its value, "+" its sum, "@3" that member 3 has come to it.
  std::string path_of(const std::string& key, const std::string& what = "") const;
  std::string failure_path() const;
  /// Looks until `look` gives something, or throws.
  template <class Look>
  auto wait_for(const Look& look, const StoreRequest& what);

  std::string folder_;
  double limit_s_;
  std::function<void()> on_wait_;
  bool made_folder_ = false;
  std::vector<std::string> set_here_;  // paths
};

}  // namespace busbw
