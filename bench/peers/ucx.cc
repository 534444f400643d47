// Peer: UCX on one host. A put into shared memory that UCX allocated or into ordinary memory, with
// a flag put after it; or a tagged message.
#include <ucp/api/ucp.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "bench/limits/args.h"
#include "bench/limits/round.h"

namespace limits {
namespace {

enum class Mode { kSegment, kOwn, kTag };

void checked(ucs_status_t status, const char* what) {
  if (status != UCS_OK)
    throw Failure(std::string("UCX: ") + what + ": " + ucs_status_string(status));
}

// A context, a worker, and an endpoint to the other process.
class Ucx {
 public:
  explicit Ucx(Link& link) : link_(link) {
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_RMA | UCP_FEATURE_TAG;
    ucp_config_t* config = nullptr;
    checked(ucp_config_read(nullptr, nullptr, &config), "cannot read its settings");
    const auto status = ucp_init(&params, config, &context_);
    ucp_config_release(config);
    checked(status, "cannot start");
    ucp_worker_params_t worker{};
    worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker.thread_mode = UCS_THREAD_MODE_SINGLE;
    checked(ucp_worker_create(context_, &worker, &worker_), "cannot make a worker");
    connect();
  }
  Ucx(const Ucx&) = delete;
  Ucx& operator=(const Ucx&) = delete;
  // The processes end next; closing endpoints would only make one wait for the other.
  ~Ucx() = default;

  ucp_context_h context() const { return context_; }
  ucp_worker_h worker() const { return worker_; }
  ucp_ep_h peer() const { return peer_; }
  void progress() { ucp_worker_progress(worker_); }

  // Until an operation is done.
  void finish(ucs_status_ptr_t request, const char* what) {
    if (request == nullptr) return;
    if (UCS_PTR_IS_ERR(request)) checked(UCS_PTR_STATUS(request), what);
    Link::Patience patience;
    auto status = UCS_INPROGRESS;
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
      progress();
      link_.spin(patience);
    }
    ucp_request_free(request);
    checked(status, what);
  }
  void flush() {
    ucp_request_param_t none{};
    finish(ucp_ep_flush_nbx(peer_, &none), "flush");
  }

  // Each side leaves bytes for the other and gets the other's.
  std::vector<std::byte> swap(std::span<const std::byte> mine) {
    const auto board = link_.blackboard();
    const auto half = board.size() / 2;
    const bool giver = link_.side() == Side::kGiver;
    auto* out = board.data() + (giver ? 0 : half);
    auto* in = board.data() + (giver ? half : 0);
    std::size_t size = mine.size();
    if (size + sizeof size > half) throw Failure("UCX: an address is too long");
    std::memcpy(out, &size, sizeof size);
    std::memcpy(out + sizeof size, mine.data(), size);
    link_.meet();
    std::memcpy(&size, in, sizeof size);
    std::vector<std::byte> theirs(in + sizeof size, in + sizeof size + size);
    link_.meet();
    return theirs;
  }

 private:
  void connect() {
    ucp_address_t* address = nullptr;
    std::size_t size = 0;
    checked(ucp_worker_get_address(worker_, &address, &size), "has no address");
    const auto theirs = swap({reinterpret_cast<std::byte*>(address), size});
    ucp_worker_release_address(worker_, address);
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = reinterpret_cast<const ucp_address_t*>(theirs.data());
    checked(ucp_ep_create(worker_, &params, &peer_), "cannot reach the other process");
  }

  Link& link_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h peer_ = nullptr;
};

// Memory that the other side may put into: UCX's own, or ours where an address is given.
class Window {
 public:
  Window() = default;
  Window(Ucx& ucx, std::size_t bytes, void* at) : ucx_(&ucx) {
    ucp_mem_map_params_t params{};
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                        UCP_MEM_MAP_PARAM_FIELD_FLAGS;
    params.length = bytes;
    params.address = at;
    params.flags = at == nullptr ? UCP_MEM_MAP_ALLOCATE : 0;
    checked(ucp_mem_map(ucx.context(), &params, &handle_), "cannot map memory");
    ucp_mem_attr_t attributes{};
    attributes.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS;
    checked(ucp_mem_query(handle_, &attributes), "cannot tell where memory is");
    bytes_ = {static_cast<std::byte*>(attributes.address), bytes};
    fault_in(bytes_);
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  ~Window() {
    if (handle_ != nullptr) ucp_mem_unmap(ucx_->context(), handle_);
  }

  std::span<std::byte> bytes() const { return bytes_; }
  // Its address and key, for the other side.
  std::vector<std::byte> ticket() const {
    void* key = nullptr;
    std::size_t size = 0;
    checked(ucp_rkey_pack(ucx_->context(), handle_, &key, &size), "cannot pack a key");
    const auto* at = bytes_.data();
    std::vector<std::byte> out(sizeof at + size);
    std::memcpy(out.data(), &at, sizeof at);
    std::memcpy(out.data() + sizeof at, key, size);
    ucp_rkey_buffer_release(key);
    return out;
  }

 private:
  Ucx* ucx_ = nullptr;
  ucp_mem_h handle_ = nullptr;
  std::span<std::byte> bytes_;
};

// The other side's window.
class Remote {
 public:
  Remote(Ucx& ucx, const std::vector<std::byte>& ticket) : ucx_(ucx) {
    std::memcpy(&at_, ticket.data(), sizeof at_);
    checked(ucp_ep_rkey_unpack(ucx.peer(), ticket.data() + sizeof at_, &key_), "a bad key");
  }
  Remote(const Remote&) = delete;
  Remote& operator=(const Remote&) = delete;
  ~Remote() { ucp_rkey_destroy(key_); }

  void put(std::span<const std::byte> from) {
    ucp_request_param_t none{};
    ucx_.finish(ucp_put_nbx(ucx_.peer(), from.data(), from.size(), at_, key_, &none), "put");
  }

 private:
  Ucx& ucx_;
  std::uint64_t at_ = 0;
  ucp_rkey_h key_ = nullptr;
};

class PutPair : public Pair {
 public:
  PutPair(Link& link, bool own) : link_(link), ucx_(link), own_(own), flag_(ucx_, kPage, nullptr) {
    their_flag_ = std::make_unique<Remote>(ucx_, ucx_.swap(flag_.ticket()));
  }

  void open(std::uint64_t bytes) override {
    const bool giver = link_.side() == Side::kGiver;
    if (giver || own_) memory_ = Memory(bytes);
    if (!giver)
      landing_ = std::make_unique<Window>(ucx_, bytes, own_ ? memory_.bytes().data() : nullptr);
    const auto ticket = ucx_.swap(giver ? std::vector<std::byte>() : landing_->ticket());
    if (giver) their_landing_ = std::make_unique<Remote>(ucx_, ticket);
    // The first puts set up the path, for which both sides must move.
    word().store(0, std::memory_order_relaxed);
    link_.meet();
  }
  void close() override {
    their_landing_.reset();
    link_.meet();
    landing_.reset();
    memory_ = Memory();
  }
  std::span<std::byte> source() override { return memory_.bytes(); }

  void give(std::uint32_t round) override {
    if (sleep_) throw Failure("UCX put only spins");
    their_landing_->put(memory_.bytes());
    // A fence would let the flag overtake the data.
    ucx_.flush();
    signal(round);
    await(round);
  }
  Pieces take(std::uint32_t round) override {
    await(round);
    piece_[0] = landing_->bytes();
    return piece_;
  }
  void answer(std::uint32_t round) override { signal(round); }

 private:
  std::atomic<std::uint32_t>& word() const {
    return *reinterpret_cast<std::atomic<std::uint32_t>*>(flag_.bytes().data());
  }
  void signal(std::uint32_t round) {
    their_flag_->put(std::as_bytes(std::span(&round, 1)));
    ucx_.progress();
  }
  void await(std::uint32_t round) {
    Link::Patience patience;
    while (word().load(std::memory_order_acquire) != round) {
      link_.spin(patience);
      if (patience.spins % progress_every_ == 0) ucx_.progress();
    }
  }

  Link& link_;
  Ucx ucx_;
  bool own_;
  // UCX moves data into ordinary memory by messages, which the receiver must handle; into a segment
  // the sender writes by itself.
  std::uint32_t progress_every_ = own_ ? 1 : 64;
  Window flag_;
  std::unique_ptr<Remote> their_flag_;
  Memory memory_;
  std::unique_ptr<Window> landing_;
  std::unique_ptr<Remote> their_landing_;
  std::array<std::span<const std::byte>, 1> piece_;
};

class TagPair : public Pair {
 public:
  explicit TagPair(Link& link) : ucx_(link) {}

  void open(std::uint64_t bytes) override { memory_ = Memory(bytes); }
  void close() override { memory_ = Memory(); }
  std::span<std::byte> source() override { return memory_.bytes(); }
  void give(std::uint32_t round) override {
    if (sleep_) throw Failure("UCX tag only spins");
    send(memory_.bytes(), kData);
    std::uint32_t echo = 0;
    receive(std::as_writable_bytes(std::span(&echo, 1)), kAnswer);
    if (echo != round) throw Failure("UCX: the answer is another round's");
  }
  Pieces take(std::uint32_t) override {
    receive(memory_.bytes(), kData);
    piece_[0] = memory_.bytes();
    return piece_;
  }
  void answer(std::uint32_t round) override { send(std::as_bytes(std::span(&round, 1)), kAnswer); }

 private:
  static constexpr ucp_tag_t kData = 1;
  static constexpr ucp_tag_t kAnswer = 2;

  void send(std::span<const std::byte> bytes, ucp_tag_t tag) {
    ucp_request_param_t none{};
    ucx_.finish(ucp_tag_send_nbx(ucx_.peer(), bytes.data(), bytes.size(), tag, &none), "send");
  }
  void receive(std::span<std::byte> bytes, ucp_tag_t tag) {
    ucp_request_param_t none{};
    constexpr auto kWholeTag = ~ucp_tag_t{0};
    ucx_.finish(ucp_tag_recv_nbx(ucx_.worker(), bytes.data(), bytes.size(), tag, kWholeTag, &none),
                "receive");
  }

  Ucx ucx_;
  Memory memory_;
  std::array<std::span<const std::byte>, 1> piece_;
};

// UCX reads its settings when it is loaded, before main: set them and start again.
void restart_with_settings(char** argv, const std::string& over) {
  constexpr const char* kDone = "FERRY_PEER_UCX_SET";
  if (std::getenv(kDone) != nullptr) return;
  setenv(kDone, "1", 1);
  setenv("UCX_LOG_LEVEL", "error", 1);
  setenv("UCX_WARN_UNUSED_ENV_VARS", "n", 1);
  setenv("UCX_TLS", over == "tcp" ? "tcp" : "posix,sysv,cma", 1);
  if (over == "tcp") setenv("UCX_NET_DEVICES", "lo", 1);
  execv("/proc/self/exe", argv);
}

std::unique_ptr<Pair> make(Link& link, Mode mode) {
  if (mode == Mode::kTag) return std::make_unique<TagPair>(link);
  return std::make_unique<PutPair>(link, mode == Mode::kOwn);
}

}  // namespace
}  // namespace limits

int main(int argc, char** argv) {
  const auto memory = limits::option(argc, argv, "--memory", {"segment", "own", "tag"});
  const auto over = limits::option(argc, argv, "--over", {"shm", "tcp"});
  limits::restart_with_settings(argv, over);
  const auto mode = memory == "segment" ? limits::Mode::kSegment
                    : memory == "own"   ? limits::Mode::kOwn
                                        : limits::Mode::kTag;
  const auto path = memory == "tag"   ? "tagged message over " + over
                    : memory == "own" ? std::string("put to ordinary memory")
                                      : std::string("put to a shared-memory segment");
  return limits::serve({.name = "ucx-" + memory + "-" + over,
                        .what = std::string("UCX ") + ucp_get_version_string() + ", " + path,
                        .make = [mode](limits::Link& link) { return limits::make(link, mode); }});
}
