#include "bench/driver/variants.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace ferry::bench {
namespace {

constexpr std::uint64_t kWorthStreaming = 1 << 20;

std::vector<std::string> ours(const std::string& provider, const std::string& memory,
                              const std::string& copy) {
  return {"transfer-round", "--provider", provider, "--memory", memory, "--copy", copy};
}

bool holds(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

std::vector<Variant> ours_of_shm() {
  const auto arena = ours("shm", "arena", "one");
  return {
      {.id = "ferry-shm-inplace",
       .title = "ferry shm, in place",
       .selector = "shm",
       .args = ours("shm", "inplace", "one")},
      {.id = "ferry-shm-both",
       .title = "ferry shm, both sides copy",
       .selector = "shm",
       .args = ours("shm", "arena", "both")},
      {.id = "ferry-shm", .title = "ferry shm, one copy", .selector = "shm", .args = arena},
      {.id = "ferry-shm-own",
       .title = "ferry shm, malloc memory",
       .selector = "shm",
       .args = ours("shm", "own", "both")},
      {.id = "ferry-shm-sleep",
       .title = "ferry shm, one copy, sleeping",
       .selector = "shm",
       .args = arena,
       .wait = Wait::kSleep},
  };
}

std::vector<Variant> ours_of_tcp() {
  const auto args = ours("tcp", "arena", "one");
  return {
      {.id = "ferry-tcp", .title = "ferry tcp", .selector = "tcp", .args = args},
      {.id = "ferry-tcp-sleep",
       .title = "ferry tcp, sleeping",
       .selector = "tcp",
       .args = args,
       .wait = Wait::kSleep},
  };
}

// The bandwidth tools stream, so ours must: `--pattern` says which way. The latency tool's round is
// a bare write answered by a bare write; the round with a flag is beside it.
std::vector<Variant> ours_of_verbs() {
  const auto pattern = [](const std::string& way) {
    auto args = ours("verbs", "arena", "one");
    args.insert(args.end(), {"--pattern", way});
    return args;
  };
  return {
      {.id = "ferry-verbs",
       .title = "ferry verbs, round",
       .selector = "verbs",
       .args = ours("verbs", "arena", "one"),
       .min_bytes = 16},
      {.id = "ferry-verbs-poll",
       .title = "ferry verbs, bare writes, polled",
       .selector = "verbs",
       .args = pattern("poll"),
       .max_bytes = 2},
      {.id = "ferry-verbs-write",
       .title = "ferry verbs, stream of writes",
       .selector = "verbs",
       .args = pattern("write"),
       .min_bytes = 16},
      {.id = "ferry-verbs-read",
       .title = "ferry verbs, stream of reads",
       .selector = "verbs",
       .args = pattern("read"),
       .min_bytes = 16},
  };
}

Variant limit(const std::string& id, const std::string& title, const std::string& selector,
              const std::string& program, const std::vector<std::string>& args = {}) {
  return {.id = id,
          .title = title,
          .owner = Owner::kLimit,
          .selector = selector,
          .program = "ferry-limit-" + program,
          .args = args};
}

// Non-temporal stores lose to the caches below this; both kinds are measured above.
Variant streaming(Variant variant) {
  variant.min_bytes = kWorthStreaming;
  return variant;
}

Variant sleeping(Variant variant) {
  variant.wait = Wait::kSleep;
  return variant;
}

Variant only_in_full(Variant variant) {
  variant.in_quick = false;
  return variant;
}

std::vector<Variant> limits() {
  const std::vector<std::string> nt = {"--copy", "nt"};
  return {
      limit("shm-in-place", "limit: shm, in place", "memcpy", "shm-in-place"),
      limit("shm-both", "limit: shm, both sides copy", "memcpy", "shm-both"),
      streaming(limit("shm-both-nt", "limit: shm, both copy, nt", "memcpy", "shm-both", nt)),
      limit("shm-memcpy", "limit: shm, one memcpy", "memcpy", "shm-memcpy"),
      streaming(limit("shm-memcpy-nt", "limit: shm, one copy, nt", "memcpy", "shm-memcpy", nt)),
      sleeping(limit("shm-memcpy-sleep", "limit: shm, memcpy, sleeping", "memcpy", "shm-memcpy")),
      sleeping(streaming(
          limit("shm-memcpy-nt-sleep", "limit: shm, nt, sleeping", "memcpy", "shm-memcpy", nt))),
      limit("shm-private", "limit: private memory, pipelined", "memcpy", "shm-private"),
      limit("vm-writev", "limit: process_vm_writev", "memcpy", "vm-writev"),
      limit("tcp-spin", "limit: TCP, spinning", "socket", "tcp"),
      sleeping(limit("tcp-block", "limit: TCP, blocking", "socket", "tcp")),
  };
}

Variant peer(const std::string& id, const std::string& title, const std::string& selector,
             const std::vector<std::string>& args) {
  return {.id = id,
          .title = title,
          .owner = Owner::kPeer,
          .selector = selector,
          .program = "ferry-peer-" + selector,
          .args = args};
}

// gRPC has threads of its own that always sleep, and holds a tensor several times.
Variant grpc(Variant variant) {
  variant.waits_its_way = true;
  variant.memory = 6;
  return variant;
}

// perftest rounds the bandwidth of tiny messages to nothing.
Variant bandwidth(Variant variant) {
  variant.min_bytes = 4096;
  return variant;
}

std::vector<Variant> peers() {
  return {
      peer("ucx-put", "UCX put, shm segment", "ucx", {"--memory", "segment"}),
      peer("ucx-put-own", "UCX put, malloc memory", "ucx", {"--memory", "own"}),
      only_in_full(peer("ucx-tag", "UCX tag, shm", "ucx", {"--memory", "tag"})),
      peer("ucx-tag-tcp", "UCX tag, tcp", "ucx", {"--memory", "tag", "--over", "tcp"}),
      grpc(peer("grpc-slices", "gRPC raw slices, tcp", "grpc", {"--send", "slices"})),
      grpc(peer("grpc-bytes", "gRPC protobuf bytes, tcp", "grpc",
                {"--send", "bytes", "--heap", "tuned"})),
      grpc(only_in_full(peer("grpc-bytes-plain", "gRPC bytes, heap as it comes", "grpc",
                             {"--send", "bytes", "--heap", "plain"}))),
      peer("ib-write-lat", "perftest ib_write_lat", "perftest", {"--tool", "ib_write_lat"}),
      bandwidth(peer("ib-write-bw", "perftest ib_write_bw", "perftest", {"--tool", "ib_write_bw"})),
      bandwidth(peer("ib-read-bw", "perftest ib_read_bw", "perftest", {"--tool", "ib_read_bw"})),
  };
}

std::vector<Variant> make_all() {
  std::vector<Variant> all;
  for (auto part : {ours_of_shm(), ours_of_tcp(), ours_of_verbs(), limits(), peers()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace

const std::vector<Variant>& all_variants() {
  static const std::vector<Variant> kAll = make_all();
  return kAll;
}

std::vector<Variant> select_variants(const std::vector<Variant>& all, const Selection& wanted) {
  std::vector<Variant> chosen;
  for (const auto& variant : all) {
    const auto& names = variant.owner == Owner::kOurs ? wanted.providers : wanted.against;
    const bool waits =
        variant.waits_its_way || (variant.wait == Wait::kSpin ? wanted.spin : wanted.sleep);
    if (holds(names, variant.selector) && waits && (variant.in_quick || !wanted.quick))
      chosen.push_back(variant);
  }
  return chosen;
}

std::string way_of(const Variant& variant) {
  const auto& name = variant.selector;
  if (variant.owner == Owner::kOurs) return name;
  if (name == "perftest") return "verbs";
  const bool over_tcp = name == "socket" || name == "grpc" || holds(variant.args, "tcp");
  return over_tcp ? "tcp" : "shm";
}

std::string how_to_install(const std::string& selector) {
  if (selector == "grpc")
    return "apt install libgrpc++-dev protobuf-compiler-grpc, then build again";
  if (selector == "ucx") return "apt install libucx-dev, then build again";
  return "build with FERRY_BENCH=ON";
}

Result<std::string> find_program(const std::string& program, const std::string& selector,
                                 const std::vector<std::string>& folders) {
  for (const auto& folder : folders) {
    const auto path = fmt::format("{}/{}", folder, program);
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return fail(Code::kNotFound, "{} is not here, so {} is left out: {}", program, selector,
              how_to_install(selector));
}

}  // namespace ferry::bench
