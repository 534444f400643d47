#include <array>
#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>

#include "ferry/base/base64.h"
#include "ferry/base/hash.h"
#include "ferry/bootstrap/secret.h"
#include "ferry/ps/scheduler/http_internal.h"
#include "ferry/ps/scheduler/store_internal.h"

// etcd's version 3, through its gateway for JSON: keys, values and numbers are text there.

namespace ferry::ps {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kEtcdAnswers{5};
constexpr std::uint64_t kEtcdMagic = 0x3173707972726566;  // "ferryps1"
constexpr std::string_view kScheme = "etcd://";

std::string_view chars_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::uint64_t number_in(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return 0;
  const auto& text = found->get_ref<const std::string&>();
  std::uint64_t number = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

const json* json_member(const json* object, const char* name) {
  if (object == nullptr || !object->is_object()) return nullptr;
  const auto found = object->find(name);
  return found == object->end() ? nullptr : &*found;
}
const json* first_of_list(const json* list) {
  return list != nullptr && list->is_array() && !list->empty() ? &list->front() : nullptr;
}

class EtcdStore final : public Store {
 public:
  EtcdStore(bootstrap::Endpoint endpoint, std::string_view key, std::uint64_t owner)
      : endpoint_(std::move(endpoint)),
        name_(key),
        key_(to_base64(std::as_bytes(std::span(key)))),
        owner_(owner) {}

  Result<std::optional<Bytes>> load() override {
    const auto answer = FERRY_TRY(ask("/v3/kv/range", {{"key", key_}}));
    const auto found = FERRY_TRY(value_in(answer));
    revision_ = found.revision;
    if (found.value.empty()) return std::optional<Bytes>();
    return FERRY_TRY(unseal(found.value));
  }

  Status save(const Bytes& image) override {
    const auto value = seal(image);
    const json wish = {
        {"compare",
         {{{"key", key_},
           {"target", "MOD"},
           {"result", "EQUAL"},
           {"mod_revision", std::to_string(revision_)}}}},
        {"success", {{{"request_put", {{"key", key_}, {"value", to_base64(value)}}}}}},
        {"failure", {{{"request_range", {{"key", key_}}}}}}};
    const auto answer = FERRY_TRY(ask("/v3/kv/txn", wish));
    if (const auto* done = json_member(&answer, "succeeded"); done != nullptr && *done == true) {
      if (const auto* head = json_member(&answer, "header"))
        revision_ = number_in(*head, "revision");
      return {};
    }
    const auto* response = first_of_list(json_member(&answer, "responses"));
    const auto* range = json_member(response, "response_range");
    const auto found = FERRY_TRY(value_in(range == nullptr ? json::object() : *range));
    // The answer to a save of this very image was lost.
    if (found.value == value) {
      revision_ = found.revision;
      return {};
    }
    return fail(Code::kAborted, "another scheduler has written '{}' of etcd at {}", name_,
                endpoint_.to_string());
  }

 private:
  struct Found {
    std::uint64_t revision = 0;
    Bytes value;
  };

  Result<json> ask(const char* path, const json& wish) const {
    auto answer = post_http(endpoint_, path, wish.dump(), Deadline::after(kEtcdAnswers));
    if (!answer)
      return fail(Code::kUnavailable,
                  "etcd at {} does not answer ({}); start it, or keep the state elsewhere",
                  endpoint_.to_string(), answer.error().message());
    auto parsed = json::parse(answer->body, nullptr, false);
    if (answer->status == 200 && parsed.is_object()) return parsed;
    return fail(Code::kUnavailable, "etcd at {} refused {} with status {}: {}",
                endpoint_.to_string(), path, answer->status, answer->body.substr(0, 200));
  }

  static Result<Found> value_in(const json& range) {
    Found found;
    const auto* entry = first_of_list(json_member(&range, "kvs"));
    if (entry == nullptr) return found;
    found.revision = number_in(*entry, "mod_revision");
    if (const auto* value = json_member(entry, "value"); value != nullptr && value->is_string())
      found.value = FERRY_TRY(from_base64(value->get_ref<const std::string&>()));
    return found;
  }

  // Says who has written it, so that a value is known to be one's own.
  Bytes seal(const Bytes& image) const {
    Bytes value;
    bootstrap::Encoder out(value);
    out.u64(kEtcdMagic).u64(owner_).u64(Hash().take(chars_of(image)).value()).raw(image);
    return value;
  }
  Result<Bytes> unseal(const Bytes& value) const {
    bootstrap::Decoder in(value);
    const bool ours = in.u64() == kEtcdMagic;
    (void)in.u64();
    const auto hash = in.u64();
    const auto image = in.raw(in.remaining());
    if (!in.ok() || !ours || Hash().take(chars_of(image)).value() != hash)
      return fail(Code::kDataLoss,
                  "'{}' of etcd at {} is not the state of a scheduler, or a broken one", name_,
                  endpoint_.to_string());
    return Bytes(image.begin(), image.end());
  }

  const bootstrap::Endpoint endpoint_;
  const std::string name_;
  const std::string key_;
  const std::uint64_t owner_;
  std::uint64_t revision_ = 0;  // of what is known to be there; 0: nothing
};

}  // namespace

Result<std::unique_ptr<Store>> open_etcd(const std::string& where) {
  const auto rest = std::string_view(where).substr(kScheme.size());
  const auto slash = rest.find('/');
  if (slash == std::string_view::npos || slash + 1 == rest.size())
    return fail(Code::kInvalidArgument, "a place in etcd is etcd://HOST:PORT/KEY, not '{}'", where);
  auto endpoint = FERRY_TRY(bootstrap::Endpoint::parse(rest.substr(0, slash)));
  std::array<std::byte, 8> owner{};
  FERRY_TRY(bootstrap::random_bytes(owner));
  return std::unique_ptr<Store>(std::make_unique<EtcdStore>(
      std::move(endpoint), rest.substr(slash + 1), bootstrap::Decoder(owner).u64()));
}

}  // namespace ferry::ps
