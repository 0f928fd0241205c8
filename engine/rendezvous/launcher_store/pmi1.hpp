#pragma once
// PMI-1, the line protocol of Hydra (MPICH, Intel MPI) between a process and the launcher's daemon on its node.
#include <string>

#include "rendezvous/launcher_store/shared_text.hpp"

namespace busbw {

/// Like share_text, over the inherited socket PMI_FD.
std::string share_text_by_pmi1(int process, const std::string& text, const StoreWait& wait);

/// Like share_text_by_pmi1, over the socket `descriptor`, which stays open. For tests.
std::string share_text_over(int descriptor, int process, const std::string& text, const StoreWait& wait);

}  // namespace busbw
