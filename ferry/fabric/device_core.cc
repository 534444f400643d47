#include <algorithm>
#include <condition_variable>
#include <string_view>
#include <thread>

#include "ferry/base/log.h"
#include "ferry/fabric/channel_core_internal.h"
#include "ferry/fabric/device_core_internal.h"
#include "ferry/fabric/providers_internal.h"

namespace ferry::fabric {

namespace {

Result<bootstrap::Secret> secret_of(const Options& options) {
  if (!options.secret.empty() && !options.secret_file.empty())
    return fail(Code::kInvalidArgument, "both a secret and a secret file are given; give one");
  if (!options.secret.empty()) return bootstrap::Secret::from_text(options.secret);
  if (!options.secret_file.empty()) return bootstrap::Secret::from_file(options.secret_file);
  // One per process, so that its devices admit each other.
  static const auto own = bootstrap::Secret::generate();
  return own;
}

bool known_provider(std::string_view name) {
  for (const auto& [known, open] : provider_factories())
    if (known == name) return true;
  return false;
}

Status check_providers(std::string_view list) {
  if (list == "auto") return {};
  for (;;) {
    auto comma = list.find(',');
    if (!known_provider(list.substr(0, comma)))
      return fail(Code::kInvalidArgument,
                  "there is no provider '{}'; name auto, or some of shm, verbs, tcp, fake",
                  list.substr(0, comma));
    if (comma == std::string_view::npos) return {};
    list.remove_prefix(comma + 1);
  }
}

Status check(const Options& options) {
  FERRY_TRY(check_providers(options.provider));
  if (options.completion_queues < 1 || options.completion_queues > 64)
    return fail(Code::kInvalidArgument, "completion_queues is {}; 1 to 64 make sense",
                options.completion_queues);
  if (options.lanes_per_peer < 1 ||
      static_cast<std::uint32_t>(options.lanes_per_peer) > options.max_lanes_per_peer)
    return fail(Code::kInvalidArgument, "lanes_per_peer is {}; 1 to {} make sense",
                options.lanes_per_peer, options.max_lanes_per_peer);
  if (options.patience <= 0)
    return fail(Code::kInvalidArgument, "patience is {}; it must be positive", options.patience);
  if (options.give_up < std::chrono::seconds(1))
    return fail(Code::kInvalidArgument, "give_up is {} ms; 1000 ms is the least that makes sense",
                std::chrono::duration_cast<std::chrono::milliseconds>(options.give_up).count());
  return {};
}

// Devices that are closed and not destroyed yet, because a thread of their own has a share. The end
// of the process waits for them a while: such threads use libraries that are about to end, too.
class Closing {
 public:
  static void begin() {
    static const Closing at_exit;
    auto& state = State::get();
    LockGuard<Mutex> guard(state.lock);
    ++state.count;
  }
  static void end() {
    auto& state = State::get();
    LockGuard<Mutex> guard(state.lock);
    --state.count;
    state.fewer.notify_all();
  }
  ~Closing() {
    auto& state = State::get();
    const auto deadline = Deadline::after(std::chrono::seconds(2));
    LockGuard<Mutex> guard(state.lock);
    while (state.count != 0 && !deadline.expired())
      state.fewer.wait_for(state.lock, deadline.left());
  }

 private:
  struct State {
    Mutex lock;
    std::condition_variable_any fewer;
    std::size_t count FERRY_GUARDED_BY(lock) = 0;

    static State& get() {
      static auto* const state = new State;  // outlives every thread
      return *state;
    }
  };
};

}  // namespace

DeviceCore::DeviceCore(Options given, bootstrap::Secret key)
    : options(std::move(given)),
      secret(std::move(key)),
      channels(options),
      reconnector(options),
      book(options.max_names, options.max_look_ups) {}

Result<std::shared_ptr<DeviceCore>> DeviceCore::open(Options options) {
  FERRY_TRY(check(options));
  auto secret = FERRY_TRY(secret_of(options));
  // The last share may be dropped on one of the device's own threads, which cannot join itself.
  auto destroy = [](DeviceCore* core) {
    const auto now = [core] {
      delete core;  // which closes it, if nobody has
      Closing::end();
    };
    if (core->on_own_thread()) {
      std::thread(now).detach();
    } else {
      now();
    }
  };
  std::shared_ptr<DeviceCore> core(new DeviceCore(std::move(options), std::move(secret)), destroy);
  FERRY_TRY(core->start());
  return core;
}

Status DeviceCore::start() {
  FERRY_TRY(bootstrap::random_bytes(std::as_writable_bytes(std::span(id.bytes))));
  grants = FERRY_TRY(GrantTable::create());
  for (int i = 0; i < options.completion_queues; ++i)
    loops.push_back(FERRY_TRY(Loop::open(fmt::format("ferry-cq{}", i), options.spin)));
  for (std::size_t i = 1; i < loops.size(); ++i) loops[i]->tell_also(loops[0].get());
  memory::Pool::Options memory;
  memory.arena_bytes = options.arena_bytes;
  memory.budget_bytes = options.budget_bytes;
  memory.numa_node = options.numa_node;
  pool = std::make_unique<memory::Pool>(memory);
  FERRY_TRY(pool->add_registrar(&blocks));
  context.options = &options;
  context.id = id;
  context.pool = pool.get();
  context.grants = grants.get();
  context.operations = &channels.operations;
  context.loops = &loops;
  context.secret = &secret;
  context.find_block = [this](const std::byte* at, std::size_t length) {
    return blocks.holding(at, length);
  };
  context.block_of = [this](std::uint32_t block) { return blocks.of(block); };
  regions = std::make_unique<Regions>(Regions::Owner{
      pool.get(), &blocks, grants.get(), &providers, &registrars,
      [this] { return std::shared_ptr<Regions>(shared_from_this(), regions.get()); }});
  control = FERRY_TRY(Control::open(id, secret, session_context()));
  endpoint = control->endpoint();
  for (auto& loop : loops) loop->stand_in_for(&control->loop());
  open_providers();
  if (!providers.empty()) return control->ready(introduction());
  std::string reasons;
  for (const auto& report : reports) reasons += "\n  " + report.name + ": " + report.detail;
  return fail(Code::kUnavailable, "no provider of '{}' works on this host:{}", options.provider,
              reasons);
}

SessionContext DeviceCore::session_context() {
  SessionContext lent;
  lent.options = &options;
  lent.providers = &providers;
  lent.loops = &loops;
  lent.grants = grants.get();
  lent.book = &book;
  lent.unsent = &unsent;
  lent.peers = &peers;
  lent.next_loop = [this]() -> Loop& { return *loops[next_loop_.fetch_add(1) % loops.size()]; };
  lent.channels = [this]() -> std::shared_ptr<ChannelShared> {
    auto self = weak_from_this().lock();
    if (self == nullptr) return nullptr;
    return {std::move(self), &channels};
  };
  lent.accepted = [this](std::shared_ptr<ChannelCore> core) { accepted(std::move(core)); };
  lent.reconnect = [this](const std::shared_ptr<Session>& session, std::uint32_t lane) {
    reconnector.add(session, lane);
  };
  return lent;
}

void DeviceCore::open_providers() {
  for (const auto& [name, open] : provider_factories()) {
    bool automatic = options.provider == "auto" && name != "fake";
    if (!automatic && !names_provider(options.provider, name)) continue;
    auto made = open(context);
    Status status;
    std::unique_ptr<MeteredRegistrar> registrar;
    if (!made) {
      status = tl::unexpected<Error>(made.error());
    } else {
      registrar = std::make_unique<MeteredRegistrar>(**made);
      status = pool->add_registrar(registrar.get());
    }
    ProviderReport report;
    report.name = name;
    report.on = status.has_value();
    if (status) {
      // The options name no node: arenas are best near the NIC that reads and writes them.
      if (options.numa_node < 0 && (*made)->numa_node() >= 0)
        pool->prefer_node((*made)->numa_node());
      report.capabilities = (*made)->capabilities();
      report.detail = (*made)->describe();
      providers.push_back(*std::move(made));
      registrars.push_back(std::move(registrar));
    } else {
      report.detail = status.error().message();
    }
    reports.push_back(std::move(report));
  }
}

DeviceCore::~DeviceCore() {
  close();
  reconnector.stop();
  for (auto& registrar : registrars) pool->remove_registrar(registrar.get());
  registrars.clear();
  providers.clear();  // before the control plane, which their last words may still go to
  control.reset();
  loops.clear();
  if (pool != nullptr) pool->remove_registrar(&blocks);
}

void DeviceCore::close() {
  if (closed_.exchange(true)) return;
  Closing::begin();
  auto cause = fail(Code::kCancelled, "the device was closed").value();
  if (control != nullptr) control->shut(cause);
  decltype(accepted_) waiting;
  {
    LockGuard<Mutex> guard(lock_);
    waiting.swap(accepted_);
  }
}

bool DeviceCore::on_own_thread() const {
  if (control != nullptr && control->loop().on_poller()) return true;
  for (const auto& loop : loops)
    if (loop->on_poller()) return true;
  return reconnector.on_own_thread();
}

Result<Region> DeviceCore::allocate(std::size_t bytes, Rights rights) {
  return Region(FERRY_TRY(regions->allocate(bytes, rights)));
}

Result<Region> DeviceCore::register_memory(std::span<std::byte> memory, Rights rights) {
  return Region(FERRY_TRY(regions->register_memory(memory, rights)));
}

Result<RemoteRegion> DeviceCore::grant(const Region& region, Rights rights, std::uint32_t peer) {
  return regions->grant(region.record_, rights, peer);
}

std::vector<RegistrationStats> DeviceCore::registrations() const {
  std::vector<RegistrationStats> all;
  for (std::size_t i = 0; i < providers.size(); ++i) {
    auto& stats = all.emplace_back();
    stats.provider = providers[i]->name();
    stats.count = registrars[i]->count();
    stats.ns = registrars[i]->ns();
    providers[i]->count_registrations(stats);
  }
  return all;
}

std::vector<std::byte> DeviceCore::introduction() const {
  Introduction mine;
  mine.identity = identity_of_this_process(endpoint);
  for (const auto& provider : providers)
    mine.offers[std::string(provider->name())] = provider->offer();
  return mine.encode();
}

void DeviceCore::notify_loops() {
  for (auto& loop : loops) loop->notify();
}

}  // namespace ferry::fabric
