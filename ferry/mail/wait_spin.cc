#include "ferry/mail/wait_spin.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ferry/mail/find_tuning.h"
#include "ferry/mail/tuning_cache.h"

namespace ferry::mail {

namespace {

constexpr std::array<std::pair<SpinSource, std::string_view>, 4> kSpinSources = {
    {{SpinSource::kDefault, "default"},
     {SpinSource::kKept, "kept"},
     {SpinSource::kMeasured, "measured"},
     {SpinSource::kUser, "user"}}};

SpinInUse kept_spin(const fabric::Channel& channel, const std::string& folder) {
  const auto found = kept_tuning(channel, folder);
  if (found.source == TuningSource::kDefault) return {};
  return {found.tuning.spin, SpinSource::kKept};
}

}  // namespace

std::string_view name_of(SpinSource source) {
  for (const auto& [known, name] : kSpinSources)
    if (known == source) return name;
  return "?";
}

Result<SpinSource> spin_source_named(std::string_view name) {
  for (const auto& [source, its_name] : kSpinSources)
    if (its_name == name) return source;
  return fail(Code::kInvalidArgument, "a spin comes from default, kept, measured or user, not '{}'",
              name);
}

std::string SpinInUse::to_text() const {
  return fmt::format("{:.4g} us ({})", static_cast<double>(spin.count()) / 1000, name_of(source));
}

Nanos spin_of_user(double microseconds) {
  const auto most = static_cast<double>(TuningLimits::kSpin.count());
  const auto ns = microseconds > 0 ? std::min(microseconds * 1000, most) : 0;
  const Nanos spin(static_cast<std::int64_t>(ns));
  return spin == fabric::Options().spin ? spin + Nanos(1) : spin;
}

void WaitSpin::add(fabric::Device& device, const fabric::Channel& channel) {
  if (device.spin() != fabric::Options().spin) {
    now_ = {device.spin(), SpinSource::kUser};
    return;
  }
  const auto path = TuningPath::of(channel);
  const auto name = path.provider + " " + path.host + " " + path.other_host;
  if (!paths_.contains(name)) paths_[name] = kept_spin(channel, folder_);
  now_ = std::max_element(paths_.begin(), paths_.end(), [](const auto& one, const auto& other) {
           return one.second.spin < other.second.spin;
         })->second;
  device.set_spin(now_.spin);
}

}  // namespace ferry::mail
