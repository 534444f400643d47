#pragma once

namespace ferry::interop {

// Copies of gRPC in this process that the plug-in does not serve: one that was loaded after the
// program had begun, or one that is linked into an extension or into the program itself. Their
// connections stay on TCP, and one line of the log says so.

// `caller` is the code that adds a descriptor to an epoll, which every gRPC does when it is first
// used. Looks at each object file once. Takes no lock that dlopen() holds while constructors run.
// Thread-safe.
void note_epoll_caller(const void* caller);

// Leaves out the copy that this address lies in, because the plug-in serves it. Before main().
void set_served_grpc(const void* inside);

// Nothing is said any more, because a line was logged already.
void silence_unserved();

}  // namespace ferry::interop
