#pragma once
// Base of the backends of ranks in host memory: shared memory and sockets.
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "backends/backend.hpp"
#include "backends/host/host_hardware.hpp"
#include "backends/host/host_lifecycle.hpp"
#include "backends/host/host_traits.hpp"

namespace busbw {

/// Replaces a communicator of `group` by one around it, for example one that records the operations.
using CommunicatorWrapper =
    std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator>, const Team& world, Team& group)>;

/// See Backend. Derived classes reserve the buffers and connect the ranks.
class HostBackend : public Backend {
 public:
  const BackendTraits& traits() const final { return kHostTraits; }
  std::string version() const final { return version_; }
  Device device(int index) const final { return {index, "cpu", cpu_name_}; }
  std::size_t available_bytes(int /*ranks*/) const final { return available_memory_bytes(); }
  /// A communicator with a parent is in layer 1 (`connect_layer`), because some of its ranks still have the parent in
  /// layer 0.
  std::unique_ptr<CommunicatorLifecycle> make_lifecycle(Team& world) final {
    return make_host_lifecycle(
        [this, &world](Team& team, bool is_derived) { return connect_layer(world, team, is_derived ? 1 : 0); });
  }
  std::string missing_lifecycle_call(CreationKind /*kind*/, LifecycleCall call) const final {
    if (call == LifecycleCall::abort) return "the host backend has no abort; drop -a";
    if (call == LifecycleCall::finalize) return "the host backend has no finalize";
    return {};
  }
  /// `world` and this backend must outlive the communicator.
  std::unique_ptr<Communicator> connect(Team& world, Team& group) final { return connect_wrapped(world, group, 0); }
  std::unique_ptr<Communicator> connect_further(Team& world, Team& group, Communicator& /*first*/, int layer) final {
    return connect_wrapped(world, group, layer);
  }
  /// Wraps all communicators from now on, except those of `make_lifecycle`, which only exist to be measured.
  void wrap_communicators(CommunicatorWrapper wrap) { wrap_ = std::move(wrap); }

 protected:
  /// `version`: of this program.
  explicit HostBackend(std::string version) : version_(std::move(version)), cpu_name_(busbw::cpu_name()) {}

 private:
  /// Connects the ranks of `group`. Each rank has at most one communicator in a layer (Backend::connect_further).
  virtual std::unique_ptr<Communicator> connect_layer(Team& world, Team& group, int layer) = 0;

  std::unique_ptr<Communicator> connect_wrapped(Team& world, Team& group, int layer) {
    auto communicator = connect_layer(world, group, layer);
    return wrap_ ? wrap_(std::move(communicator), world, group) : std::move(communicator);
  }

  std::string version_;
  std::string cpu_name_;
  CommunicatorWrapper wrap_;
};

}  // namespace busbw
