#pragma once

#include <memory>
#include <string>

#include "ferry/interop/grpc_endpoint/background_internal.h"
#include "ferry/interop/grpc_endpoint/dialler_internal.h"
#include "ferry/interop/grpc_endpoint/doorbell_internal.h"
#include "ferry/interop/grpc_endpoint/endpoint_internal.h"
#include "ferry/interop/grpc_endpoint/epoll_waiter_internal.h"
#include "ferry/interop/grpc_endpoint/link_acceptor_internal.h"
#include "ferry/interop/grpc_endpoint/link_table_internal.h"
#include "ferry/interop/grpc_endpoint/slice_memory_internal.h"

namespace ferry::interop {

// What the plug-in has once per process, put together: each part owns its state, and knows only the
// parts below it that it is given here. There is no lock and no state of the hub's own. It is made
// at the plug-in's entry point (entry_internal.h) and handed to the handshakers.
//
// Thread-safe. Parts that touch the device are used only after open() has succeeded.
class Hub {
 public:
  Status open(const std::string& reached_at) { return device_.open(reached_at); }
  const bootstrap::Secret& secret() const { return device_.secret(); }
  // In the child of a fork(): from now on gRPC stays on TCP there.
  void disown();

  Doorbell& doorbell() { return doorbell_; }
  EpollWaiter& waiter() { return waiter_; }
  SliceMemory& slices() { return slices_; }
  LinkTable& links() { return links_; }
  Dialler& dialler() { return dialler_; }
  LinkAcceptor& acceptor() { return acceptor_; }
  // FerryEndpoint::make(), which see.
  grpc_endpoint* make_endpoint(std::shared_ptr<Link> link, std::shared_ptr<Wire> wire,
                               grpc_endpoint* under, FerryEndpoint::Names names);

  // Writes the report of every connection there was, if the user wants it (FERRY_GRPC_STATS).
  void print_report();

 private:
  // From the bottom up.
  PluginDevice device_;
  Waker waker_{device_};
  Background background_{waker_};
  Doorbell doorbell_{
      device_, waker_, {[this] { return waiter_.on_rung(); }, [this] { waiter_.on_silenced(); }}};
  Endpoints endpoints_;
  EpollWaiter waiter_{device_, waker_, doorbell_, endpoints_};
  SliceMemory slices_{device_, doorbell_};
  // Connections may have waited for the memory of a link that is closed.
  LinkTable links_{device_, background_, [this] {
                     if (device_.room().crowded() && waiter_.has_work()) waker_.wake();
                   }};
  PathTuner tuner_{device_, links_};
  Dialler dialler_{device_, links_, tuner_};
  LinkAcceptor acceptor_{device_, links_, tuner_};
};

}  // namespace ferry::interop
