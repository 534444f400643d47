#include <dlfcn.h>

#include <cstdio>

// program LIBRARY ADDRESS: is not linked with gRPC, and loads a library that is.
int main(int argc, char** argv) {
  if (argc != 3) return 2;
  void* library = ::dlopen(argv[1], RTLD_NOW);
  if (library == nullptr) {
    std::puts(::dlerror());
    return 2;
  }
  using Call = bool (*)(const char*);
  const auto call = reinterpret_cast<Call>(::dlsym(library, "call_server"));
  std::puts(call != nullptr && call(argv[2]) ? "fine" : "the call failed");
  return 0;
}
