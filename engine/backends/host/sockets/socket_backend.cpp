// Selects the network interfaces, and creates communicators over TCP.
#include "backends/host/sockets/socket_backend.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <stdexcept>

#include "backends/host/sockets/socket_addresses.hpp"
#include "backends/host/sockets/socket_communicator.hpp"
#include "backends/host/sockets/socket_mesh.hpp"
#include "common/os/open_file_limit.hpp"
#include "common/support/error.hpp"

namespace busbw {
namespace {

/// Descriptors to reserve beyond the ranks' connections: files, pending connections, the rendezvous.
constexpr int kOtherDescriptors = 1024;

std::string interface_prefixes() {
  const char* const value = std::getenv(std::string(kInterfacesVariable).c_str());
  return value == nullptr ? "" : value;
}

}  // namespace

SocketBackend::SocketBackend(int first_rank, int ranks, std::string version, std::optional<int> first_on_host)
    : HostBackend(std::move(version)),
      first_rank_(first_rank),
      ranks_(ranks),
      first_on_host_(first_on_host),
      interfaces_(select_interfaces(interfaces(), interface_prefixes(), kInterfacesVariable)) {}

std::optional<NetworkPort> SocketBackend::network_port(int index) const {
  const std::vector<std::string> names = port_names(interfaces_);
  if (!first_on_host_ || names.empty()) return std::nullopt;
  const auto position = static_cast<std::size_t>(*first_on_host_ + index) % names.size();
  return NetworkPort{names[position], static_cast<int>(position)};
}

std::size_t SocketBackend::work_bytes(int ranks) const {
  return static_cast<std::size_t>(ranks) * SocketCommunicator::kWorkBytes;
}

std::vector<std::pair<std::string, std::string>> SocketBackend::facts() const {
  std::vector<std::pair<std::string, std::string>> facts{{"transport", "tcp sockets"}};
  const std::lock_guard lock(mutex_);
  std::vector<std::string> addresses;
  for (const Interface& interface : used_interfaces_)
    addresses.push_back(fmt::format("{} ({})", interface.address.host(), interface.name));
  if (!addresses.empty()) facts.emplace_back("transport_addresses", fmt::format("{}", fmt::join(addresses, ", ")));
  return facts;
}

void SocketBackend::reserve(int ranks, std::size_t buffer_bytes) {
  if (buffers_) throw std::logic_error("SocketBackend::reserve: called twice");
  if (ranks != ranks_) throw std::logic_error("SocketBackend::reserve: the rank count differs from the constructor's");
  buffers_ = std::make_unique<RankBuffers>(ranks, buffer_bytes, 0, Sharing::threads);
}

std::unique_ptr<Communicator> SocketBackend::connect_layer(Team& world, Team& group, int /*layer*/) {
  if (!buffers_) throw std::logic_error("SocketBackend::connect: call reserve first");
  {
    const std::lock_guard lock(mutex_);
    // If the limit cannot be raised far enough, creating a socket throws the error.
    connection_count_ += static_cast<std::size_t>(group.size());
    raise_open_file_limit(connection_count_ + kOtherDescriptors);
  }
  const int local_rank = world.rank() - first_rank_;
  // A rank with a network port uses only this port between hosts. Peers connect to the addresses of `offered`, and this
  // rank's own sockets are bound to `pinned`.
  const auto port = network_port(local_rank);
  const std::string pinned = port ? port->name : std::string();
  std::vector<Interface> offered = interfaces_;
  if (port)
    std::erase_if(offered, [&](const Interface& interface) {
      return !interface.address.is_loopback() && interface.name != port->name;
    });
  const bool is_for_flows = first_on_host_.has_value();  // the ranks of flows connect later, by `reconnect`
  SocketMesh mesh = is_for_flows ? SocketMesh(group.rank(), group.size(), offered, pinned)
                                 : SocketMesh(group, world.rank(), offered, pinned);
  add_used_interfaces(mesh.used_interfaces());
  return std::make_unique<SocketCommunicator>(std::move(mesh), world, buffers_->send_buffer(local_rank),
                                              buffers_->recv_buffer(local_rank));
}

void SocketBackend::add_used_interfaces(const std::vector<Interface>& interfaces) {
  const std::lock_guard lock(mutex_);
  for (const Interface& interface : interfaces) add_unless_known(used_interfaces_, interface);
}

}  // namespace busbw
