// Loads the functions of the real NCCL by name.
#include "fastpath/nccl/real_nccl.hpp"

#include <atomic>
#include <memory>
#include <new>

#include "fastpath/forward/real_library.hpp"

namespace busbw::fastpath {
namespace {

template <class Function>
void load_function(const OpenedLibrary& library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(library.find(name));
}

void load_functions(const OpenedLibrary& library, RealNccl& real) {
#define FASTPATH_LOAD(member, name) load_function(library, #name, real.member);
  FASTPATH_REAL_FUNCTIONS(FASTPATH_LOAD)
#undef FASTPATH_LOAD
  load_function(library, "ncclCommRevoke", real.comm_revoke);
  load_function(library, "ncclTeamLsa", real.team_lsa);
  load_function(library, "ncclGetPeerDevicePointer", real.get_peer_device_pointer);
}

}  // namespace

const RealNccl* real_nccl() noexcept {
  // Created without a lock and never freed, for the reasons in real_library().
  static std::atomic<const RealNccl*> process_nccl{nullptr};
  if (const auto* real = process_nccl.load(std::memory_order_acquire)) return real;
  const OpenedLibrary* const library = real_library();
  if (!library) return nullptr;
  std::unique_ptr<RealNccl> loaded(new (std::nothrow) RealNccl);
  if (!loaded) return nullptr;
  load_functions(*library, *loaded);
  const RealNccl* other_thread_nccl = nullptr;
  if (!process_nccl.compare_exchange_strong(other_thread_nccl, loaded.get(), std::memory_order_acq_rel))
    return other_thread_nccl;
  return loaded.release();
}

}  // namespace busbw::fastpath
