#include "ferry/fabric/verbs/wc_error_internal.h"

namespace ferry::fabric::verbs {

namespace {

struct Meaning {
  Code code;
  const char* text;
};

Meaning meaning_of(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_REM_ACCESS_ERR:
      return {Code::kPermissionDenied, "the peer's memory was revoked or never granted"};
    case IBV_WC_REM_INV_REQ_ERR:
      return {Code::kInvalidArgument, "the peer's device refused the request"};
    case IBV_WC_REM_OP_ERR:
      return {Code::kInternal, "the peer's device failed to carry the request out"};
    case IBV_WC_RETRY_EXC_ERR:
      return {Code::kUnavailable, "the peer's device does not answer; is its link up?"};
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return {Code::kUnavailable, "the peer takes no messages; is its process stopped?"};
    case IBV_WC_LOC_PROT_ERR:
      return {Code::kInternal, "local memory is not registered any more; was it unmapped?"};
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_QP_OP_ERR:
    case IBV_WC_MW_BIND_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
      return {Code::kInternal, "the local device refused the work request"};
    case IBV_WC_WR_FLUSH_ERR:
      return {Code::kUnavailable, "the queue pair was taken down"};
    default:
      return {Code::kUnavailable, "the device gave the work request up"};
  }
}

}  // namespace

Error error_of(ibv_wc_status status, std::uint32_t vendor_code, std::string_view what) {
  auto meaning = meaning_of(status);
  return Error(meaning.code,
               fmt::format("{}: {} ({}, vendor code {:#x})", what, meaning.text,
                           ibv_wc_status_str(status), vendor_code),
               static_cast<int>(status), __FILE__, __LINE__);
}

}  // namespace ferry::fabric::verbs
