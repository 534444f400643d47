#include "ferry/train/transport.h"

#include <fmt/ranges.h>

#include <array>
#include <optional>

#include "ferry/runtime/ferry_rendezvous.h"
#ifdef FERRY_HAS_GRPC
#include "ferry/interop/grpc/rendezvous.h"
#endif

namespace ferry::train {
namespace {

using Copies = runtime::FerryRendezvous::Copies;

constexpr std::array<std::pair<Transport, std::string_view>, 5> kTransports = {
    {{Transport::kFerry, "ferry"},
     {Transport::kFerryCopy, "ferry-copy"},
     {Transport::kFerryPrivate, "ferry-private"},
     {Transport::kGrpc, "grpc"},
     {Transport::kGrpcFerry, "grpc+ferry"}}};

class RegionBlock final : public runtime::Block {
 public:
  explicit RegionBlock(fabric::Region region) : region_(std::move(region)) {}
  std::span<std::byte> bytes() const override { return region_.bytes(); }

 private:
  fabric::Region region_;
};

class FerryStation final : public Station {
 public:
  FerryStation(fabric::Device device, Copies copies)
      : device_(std::move(device)), copies_(copies) {}

  std::string endpoint() const override { return device_.endpoint(); }
  runtime::Rendezvous& meet(const std::string& task, const std::string& program,
                            const std::map<std::string, std::string>& endpoints) override {
    links_.emplace(device_, task, program, endpoints);
    return rendezvous_.emplace(*links_, copies_);
  }
  std::optional<mail::SpinInUse> use_kept_spin() override {
    mail::WaitSpin spin;
    for (const auto& [task, channel] : links_->all()) spin.add(device_, *channel);
    return spin.now();
  }
  std::vector<fabric::RegistrationStats> registrations() const override {
    auto all = device_.stats().registrations;
    const auto used = links_ ? links_->providers() : std::set<std::string>();
    std::erase_if(all, [&used](const auto& stats) { return used.count(stats.provider) == 0; });
    return all;
  }
  runtime::BlockMaker registered() override {
    return [this](std::uint64_t bytes) -> Result<std::shared_ptr<runtime::Block>> {
      return std::make_shared<RegionBlock>(FERRY_TRY(device_.allocate(bytes)));
    };
  }

 private:
  fabric::Device device_;
  const Copies copies_;
  std::optional<runtime::Links> links_;
  std::optional<runtime::FerryRendezvous> rendezvous_;
};

Result<std::unique_ptr<Station>> open_ferry(Copies copies, const StationOptions& station) {
  fabric::Options options;
  options.provider = station.provider;
  options.secret = station.secret;
  options.secret_file = station.secret_file;
  options.listen = station.listen;
  options.spin = station.spin;
  return std::make_unique<FerryStation>(FERRY_TRY(fabric::Device::open(options)), copies);
}

#ifdef FERRY_HAS_GRPC
class GrpcStation final : public Station {
 public:
  explicit GrpcStation(std::unique_ptr<interop::GrpcRendezvous> rendezvous)
      : rendezvous_(std::move(rendezvous)) {}

  std::string endpoint() const override { return rendezvous_->endpoint(); }
  runtime::Rendezvous& meet(const std::string&, const std::string&,
                            const std::map<std::string, std::string>& endpoints) override {
    rendezvous_->know(endpoints);
    return *rendezvous_;
  }
  runtime::BlockMaker registered() override { return runtime::make_ordinary_block; }

 private:
  std::unique_ptr<interop::GrpcRendezvous> rendezvous_;
};

Result<std::unique_ptr<Station>> open_grpc(const StationOptions& options) {
  interop::GrpcRendezvousOptions how;
  how.listen = options.listen;
  if (options.transport == Transport::kGrpcFerry)
    how.endpoint = interop::GrpcEndpoint{options.provider, options.secret, options.secret_file};
  return std::make_unique<GrpcStation>(FERRY_TRY(interop::GrpcRendezvous::listen(how)));
}
#else
Result<std::unique_ptr<Station>> open_grpc(const StationOptions&) {
  return fail(Code::kUnimplemented,
              "this program was built without gRPC; install libgrpc++-dev and build it again");
}
#endif

}  // namespace

std::string_view name_of(Transport transport) {
  for (const auto& [known, name] : kTransports)
    if (known == transport) return name;
  return "?";
}

Result<Transport> transport_named(std::string_view name) {
  for (const auto& [known, its_name] : kTransports)
    if (its_name == name) return known;
  return fail(Code::kInvalidArgument, "there is no transport '{}'; there are {}", name,
              fmt::join(transport_names(), ", "));
}

std::vector<std::string> transport_names() {
  std::vector<std::string> names;
  for (const auto& [known, name] : kTransports) names.emplace_back(name);
  return names;
}

Result<std::unique_ptr<Station>> Station::open(const StationOptions& options) {
  switch (options.transport) {
    case Transport::kFerry:
      return open_ferry(Copies::kNone, options);
    case Transport::kFerryCopy:
      return open_ferry(Copies::kSender, options);
    case Transport::kFerryPrivate:
      return open_ferry(Copies::kBoth, options);
    case Transport::kGrpc:
    case Transport::kGrpcFerry:
      return open_grpc(options);
  }
  return fail(Code::kInvalidArgument, "no such transport");
}

}  // namespace ferry::train
