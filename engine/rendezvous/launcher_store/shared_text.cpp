// Selects the protocol of the launcher's key-value store.
#include "rendezvous/launcher_store/shared_text.hpp"

namespace busbw {

std::string share_text(LauncherStore store, int process, const std::string& text, const StoreWait& wait) {
  switch (store) {
    case LauncherStore::pmi1: return share_text_by_pmi1(process, text, wait);
    case LauncherStore::pmix: return share_text_by_pmix(process, text, wait);
  }
  return {};
}

}  // namespace busbw
