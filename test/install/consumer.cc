// A user's program, built against an installed copy of the library.
#include <ferry/base/error.h>
#include <ferry/base/fd.h>
#include <ferry/base/log.h>

#include <cstdio>
#include <cstring>

int main() {
  auto memory = ferry::sealed_memfd("consumer", 4096);
  if (!memory) return std::puts(memory.error().to_string().c_str()), 1;
  auto mine = ferry::Mapping::shared(memory->get(), 4096);
  auto theirs = ferry::Mapping::shared(memory->get(), 4096, false);
  if (!mine || !theirs) return std::puts("no mapping"), 1;
  std::strcpy(reinterpret_cast<char*>(mine->data()), "installed");
  ferry::set_log_level("info");
  ferry::logger().info("the other mapping says: {}", reinterpret_cast<const char*>(theirs->data()));
  return std::strcmp(reinterpret_cast<const char*>(theirs->data()), "installed");
}
