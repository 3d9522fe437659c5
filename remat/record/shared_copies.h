#pragma once

#include <c10/core/Storage.h>
#include <c10/util/flat_hash_map.h>

#include "remat/record/view.h"

namespace remat::record {

/// Copies of small tensors that the program may change before backward. Every layer of a model may
/// read the same mask, each in a region of its own: they share a copy as long as its bytes are what
/// the next of them reads.
class SharedCopies {
 public:
  /// A copy of that part of the storage, made before or now. Nobody may write it.
  c10::Storage copy_of(const c10::Storage& storage, Span part);

 private:
  struct Copy {
    Span part;
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  };
  void forget_dead();

  ska::flat_hash_map<const void*, Copy> by_address_;  ///< of the part in the original
  size_t forget_at_ = 64;
};

}  // namespace remat::record
