#include "ferry/train/measure.h"

#include <fmt/format.h>

#include <array>

#include "ferry/base/log.h"
#include "ferry/bootstrap/secret.h"
#include "ferry/fabric/device.h"
#include "ferry/mail/find_tuning.h"
#include "ferry/mail/tuning_cache.h"
#include "ferry/train/child_internal.h"

namespace ferry::train {
namespace {

constexpr Nanos kMeasureLimit = std::chrono::seconds(3);
constexpr Nanos kMeasureLook = std::chrono::milliseconds(50);

std::optional<mail::TuningEntry> kept_for(const std::string& provider) {
  const auto host = fabric::host_id();
  // What "auto" takes, unless shared memory cannot be had: then the two processes find the rest.
  const auto path = mail::TuningPath::between(host, host, provider == "auto" ? "shm" : provider);
  return mail::TuningCache(mail::TuningCache::default_folder()).load(path);
}

// One end of the path, and how it finds the other one.
struct MeasuringEnd {
  fabric::Options options = {};
  std::string other = {};  // empty: it is the one that is found
  Deadline deadline;

  Result<mail::FoundTuning> run(Lines& lines) const {
    auto device = FERRY_TRY(fabric::Device::open(options));
    if (other.empty()) FERRY_TRY(lines.say(device.endpoint()));
    auto channel = FERRY_TRY(other.empty() ? device.accept(deadline)
                                           : device.connect(other, {.deadline = deadline}));
    return mail::find_tuning(device, channel, mail::TuningUse::kMeasure, "", deadline);
  }
};

int be_end(const MeasuringEnd& end, Lines& lines) {
  const auto found = end.run(lines);
  const auto said =
      found ? lines.say(fmt::format("{} {}", name_of(found->source), found->tuning.spin.count()))
            : lines.say("failed " + found.error().message());
  return found && said ? 0 : 1;
}

Result<std::string> hear(Child& child, const std::function<bool()>& stop, Deadline deadline) {
  for (;;) {
    auto line = child.lines().hear(std::min(deadline, Deadline::after(kMeasureLook)));
    const bool none = !line && line.error().code() == Code::kDeadlineExceeded;
    if (!none || deadline.expired()) return line;
    if (stop && stop()) return fail(Code::kCancelled, "the job was stopped");
  }
}

Result<mail::SpinInUse> parse_found(const std::string& line) {
  const auto space = std::min(line.find(' '), line.size());
  const auto source = mail::spin_source_named(line.substr(0, space));
  if (!source) return fail(Code::kUnavailable, "{}", line);
  return mail::SpinInUse{Nanos(std::strtoll(line.c_str() + space, nullptr, 10)), *source};
}

Result<mail::SpinInUse> measure(const std::string& provider, const std::function<bool()>& stop) {
  std::array<std::byte, 16> secret;
  FERRY_TRY(bootstrap::random_bytes(secret));
  MeasuringEnd end{.deadline = Deadline::after(kMeasureLimit)};
  end.options.provider = provider;
  end.options.secret.assign(reinterpret_cast<const char*>(secret.data()), secret.size());
  for (auto& letter : end.options.secret)
    letter = static_cast<char>('a' + static_cast<unsigned char>(letter) % 26);
  auto found = FERRY_TRY(Child::start([&](Lines& lines) { return be_end(end, lines); }));
  auto finder_end = end;
  finder_end.other = FERRY_TRY(hear(found, stop, end.deadline));
  auto finder = FERRY_TRY(Child::start([&](Lines& lines) { return be_end(finder_end, lines); }));
  return parse_found(FERRY_TRY(hear(finder, stop, end.deadline)));
}

}  // namespace

mail::SpinInUse measure_own_host(const std::string& provider, const std::function<bool()>& stop) {
  if (mail::TuningCache::default_folder().empty()) return {};
  if (const auto kept = kept_for(provider))
    return {kept->found.tuning.spin, mail::SpinSource::kKept};
  const auto found = measure(provider, stop);
  if (found) return *found;
  logger().info("the path on this machine is not measured: {}", found.error().message());
  return {};
}

}  // namespace ferry::train
