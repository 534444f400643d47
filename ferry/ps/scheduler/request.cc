#include "ferry/ps/scheduler/job_event_internal.h"
#include "ferry/ps/wire/protocol_version_internal.h"

namespace ferry::ps {
namespace {

Result<Request> decode_init(bootstrap::Decoder& in) {
  TensorInfo info;
  info.name = in.string(kMostName);
  info.spec = FERRY_TRY(get_spec(in));
  info.update = FERRY_TRY(get_update(in));
  FERRY_TRY(in.finish("a tensor"));
  return InitTensor{std::move(info)};
}

Result<Request> decode_enter(bootstrap::Decoder& in) {
  Enter enter;
  enter.host = in.string(kMostName);
  enter.device = in.string(kMostName);
  enter.neighbour = in.string(kMostName);
  FERRY_TRY(in.finish("a worker that enters"));
  return enter;
}

// A request without a body, or one of which nothing else can go wrong.
Result<Request> checked(Request request, const bootstrap::Decoder& in, std::string_view what) {
  FERRY_TRY(in.finish(what));
  return request;
}

}  // namespace

Result<Request> decode_request(Ask what, bootstrap::Decoder& in, std::uint64_t token) {
  switch (what) {
    case Ask::kJoinServer: {
      FERRY_TRY(check_protocol_version(in, "scheduler", "server"));
      auto place = FERRY_TRY(get_server(in));
      return checked(JoinServer{std::move(place), token}, in, "a server that joins");
    }
    case Ask::kServerReady:
      return ServerReady{};
    case Ask::kJoinWorker:
      FERRY_TRY(check_protocol_version(in, "scheduler", "worker"));
      return checked(JoinWorker{in.u32(), token}, in, "a worker that joins");
    case Ask::kEnter:
      return decode_enter(in);
    case Ask::kNeighbours:
      return Show{Show::kNeighbours};
    case Ask::kCaughtUp: {
      const bool complete = in.u8() != 0;
      return checked(CaughtUp{complete}, in, "whether a newcomer has its copies");
    }
    case Ask::kInit:
      return decode_init(in);
    case Ask::kFind: {
      std::string name(in.string(kMostName));
      return checked(FindTensor{std::move(name)}, in, "a tensor's name");
    }
    case Ask::kThere:
      return checked(TensorThere{in.u32()}, in, "a tensor that is there");
    case Ask::kNames:
      return Show{Show::kTensors};
    case Ask::kSnapshot: {
      std::string folder(in.string(kMostPath));
      return checked(TakeSnapshot{std::move(folder)}, in, "a snapshot's folder");
    }
    case Ask::kBarrier:
      return checked(WaitBarrier{in.u64()}, in, "a barrier");
    case Ask::kView:
      return Show{Show::kView};
    case Ask::kMembers:
      return Show{Show::kMembers};
    case Ask::kLeave:
      return Leave{};
    case Ask::kBackServer: {
      FERRY_TRY(check_protocol_version(in, "scheduler", "server"));
      const auto index = in.u32();
      const auto shown = in.u64();
      return checked(ServerBack{index, shown}, in, "a server that comes back");
    }
    case Ask::kBackWorker: {
      FERRY_TRY(check_protocol_version(in, "scheduler", "worker"));
      const auto rank = in.u32();
      const auto shown = in.u64();
      return checked(WorkerBack{rank, shown}, in, "a worker that comes back");
    }
    default:
      return fail(Code::kUnimplemented, "the scheduler does not answer question {}",
                  static_cast<std::uint32_t>(what));
  }
}

}  // namespace ferry::ps
