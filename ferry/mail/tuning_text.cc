#include <cmath>
#include <nlohmann/json.hpp>

#include "ferry/mail/tuning_cache.h"

// A file of the cache as text, and back. Nothing in it is taken on trust.

namespace ferry::mail {

namespace {

using nlohmann::json;

constexpr std::uint64_t kFormat = 1;
constexpr std::size_t kMostCurves = 16;
constexpr std::size_t kMostPoints = 64;
constexpr std::size_t kLongestWord = 256;
// Of a round, in nanoseconds: whole ones are written, and a day is more than any wait.
constexpr double kLeastRound = 1;
constexpr double kMostRound = 1e14;

// Takes values out of JSON; the first that is missing or of another kind is remembered.
class Taker {
 public:
  std::uint64_t number(const json& object, const char* name) {
    const auto* value = find(object, name);
    if (value != nullptr && value->is_number_unsigned()) return value->get<std::uint64_t>();
    return miss(name), 0;
  }
  std::string word(const json& object, const char* name) {
    const auto* value = find(object, name);
    if (value == nullptr || !value->is_string()) return miss(name), "";
    auto text = value->get<std::string>();
    if (text.size() > kLongestWord) return miss(name), "";
    return text;
  }
  double share(const json& object, const char* name) {
    const auto* value = find(object, name);
    if (value != nullptr && value->is_number() && value->get<double>() >= 0 &&
        value->get<double>() <= kMostRound)
      return value->get<double>();
    return miss(name), 0;
  }
  const json& list(const json& object, const char* name, std::size_t most) {
    static const json kNone = json::array();
    const auto* value = find(object, name);
    if (value != nullptr && value->is_array() && value->size() <= most) return *value;
    return miss(name), kNone;
  }
  void miss(const char* name) {
    if (missing_ == nullptr) missing_ = name;
  }
  Status status() const {
    if (missing_ == nullptr) return {};
    return fail(Code::kDataLoss, "its '{}' is missing or not what it should be", missing_);
  }

 private:
  static const json* find(const json& object, const char* name) {
    if (!object.is_object()) return nullptr;
    auto found = object.find(name);
    return found == object.end() ? nullptr : &*found;
  }
  const char* missing_ = nullptr;
};

Tuning take_tuning(Taker& taker, const json& all) {
  static const json kNothing;
  auto found = all.find("tuning");
  const json& from = found == all.end() ? kNothing : *found;
  Tuning tuning;
  tuning.eager_threshold = taker.number(from, "eager_threshold");
  tuning.copy_up_to = taker.number(from, "copy_up_to");
  tuning.chunk_bytes = taker.number(from, "chunk_bytes");
  auto chunks = taker.number(from, "chunks_in_flight");
  if (chunks > TuningLimits::kChunks) taker.miss("chunks_in_flight");
  tuning.chunks_in_flight = static_cast<std::uint32_t>(chunks);
  tuning.spin = Nanos(static_cast<std::int64_t>(taker.number(from, "spin_ns")));
  return tuning;
}

Curve take_curve(Taker& taker, const json& from) {
  Curve curve;
  curve.name = taker.word(from, "name");
  curve.noise = taker.share(from, "noise");
  for (const auto& point : taker.list(from, "points", kMostPoints)) {
    bool good = point.is_array() && point.size() == 2 && point[0].is_number_unsigned() &&
                point[1].is_number() && point[1].get<double>() >= kLeastRound &&
                point[1].get<double>() <= kMostRound;
    if (!good) return taker.miss("points"), curve;
    curve.points.push_back({point[0].get<std::uint64_t>(), point[1].get<double>()});
  }
  return curve;
}

json json_of(const Curve& curve) {
  auto points = json::array();
  for (const auto& point : curve.points) points.push_back({point.at, std::round(point.ns)});
  return {{"name", curve.name}, {"noise", std::round(curve.noise * 1e4) / 1e4}, {"points", points}};
}

}  // namespace

std::string TuningEntry::to_text() const {
  const auto& tuning = found.tuning;
  json all = {{"format", kFormat},         {"host", path.host}, {"other_host", path.other_host},
              {"provider", path.provider}, {"when", when},      {"where", where}};
  all["tuning"] = {{"eager_threshold", tuning.eager_threshold},
                   {"copy_up_to", tuning.copy_up_to},
                   {"chunk_bytes", tuning.chunk_bytes},
                   {"chunks_in_flight", tuning.chunks_in_flight},
                   {"spin_ns", tuning.spin.count()}};
  all["curves"] = json::array();
  for (const auto& curve : found.curves) all["curves"].push_back(json_of(curve));
  // Names of machines need not be UTF-8.
  return all.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<TuningEntry> TuningEntry::from_text(std::string_view text) {
  auto all = json::parse(text, nullptr, false);
  if (all.is_discarded() || !all.is_object()) return fail(Code::kDataLoss, "it is not JSON");
  Taker taker;
  if (auto format = taker.number(all, "format"); format != kFormat)
    return fail(Code::kDataLoss, "it is of format {}, not {}", format, kFormat);
  TuningEntry entry;
  entry.path.host = taker.word(all, "host");
  entry.path.other_host = taker.word(all, "other_host");
  entry.path.provider = taker.word(all, "provider");
  entry.when = taker.word(all, "when");
  entry.where = taker.word(all, "where");
  entry.found.tuning = take_tuning(taker, all);
  for (const auto& curve : taker.list(all, "curves", kMostCurves))
    entry.found.curves.push_back(take_curve(taker, curve));
  FERRY_TRY(taker.status());
  if (auto checked = check_tuning(entry.found.tuning); !checked)
    return fail(Code::kDataLoss, "{}", checked.error().message());
  return entry;
}

}  // namespace ferry::mail
