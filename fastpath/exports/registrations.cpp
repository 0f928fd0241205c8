// NCCL's functions that register and deregister windows. A symmetric window is a buffer that all ranks of a
// communicator register together. Each function calls NCCL and records or removes the window for the fast path.
#include <nccl.h>

#include <exception>

#include "common/support/stderr_message.hpp"
#include "fastpath/communicator/call_group.hpp"
#include "fastpath/communicator/communicator_registry.hpp"
#include "fastpath/exports/exported.hpp"
#include "fastpath/exports/missing_function.hpp"

using namespace busbw::fastpath;

namespace {

constexpr int kStrictOrdering = 2;  // NCCL_WIN_STRICT_ORDERING, which older headers do not define

/// True if the flags request a symmetric window and contain no unknown flag. A window with other flags may have no
/// memory that a kernel can access.
bool is_known_symmetric(int flags) { return (flags & ~kStrictOrdering) == NCCL_WIN_COLL_SYMMETRIC; }

}  // namespace

FASTPATH_EXPORT ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win,
                                                    int winFlags) try {
  const RealNccl* nccl = real_nccl();
  if (nccl == nullptr || nccl->comm_window_register == nullptr)
    return report_missing_function("ncclCommWindowRegister");
  if (win != nullptr) *win = nullptr;  // some versions of NCCL do not write it if they create no window
  const ncclResult_t result = nccl->comm_window_register(comm, buff, size, win, winFlags);
  if (result != ncclSuccess || !is_known_symmetric(winFlags)) return result;
  const WindowRegistration registration{comm, buff, size, win};
  if (!CallGroup::is_open()) return record_window(registration, *nccl);
  CallGroup::of_this_thread().add_window(registration);
  return result;
} catch (const std::exception& error) {
  busbw::print_stderr("libbusbw_nccl.so", error.what());
  return ncclSystemError;
}

FASTPATH_EXPORT ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win) {
  const RealNccl* nccl = real_nccl();
  if (nccl == nullptr || nccl->comm_window_deregister == nullptr)
    return report_missing_function("ncclCommWindowDeregister");
  if (FastCommunicator* fast = CommunicatorRegistry::instance().find(comm)) fast->clique->windows().remove(win);
  return nccl->comm_window_deregister(comm, win);
}
