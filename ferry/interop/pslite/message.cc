#include <ps/internal/message.h>

#include <array>
#include <sstream>

// Messages and nodes in words.

namespace ps {

std::string Node::DebugString() const {
  constexpr std::array kRoles = {"server", "worker", "scheduler"};
  std::ostringstream text;
  text << "role=" << kRoles.at(static_cast<std::size_t>(role));
  if (id != kEmpty) text << ", id=" << id;
  text << ", ip=" << hostname << ", port=" << port << ", is_recovery=" << is_recovery;
  return text.str();
}

std::string Node::ShortDebugString() const {
  constexpr std::array kLetters = {'S', 'W', 'H'};
  std::string text(1, kLetters.at(static_cast<std::size_t>(role)));
  return id == kEmpty ? text : text + "[" + std::to_string(id) + "]";
}

std::string Control::DebugString() const {
  constexpr std::array kCommands = {"EMPTY",   "TERMINATE", "ADD_NODE",
                                    "BARRIER", "ACK",       "HEARTBEAT"};
  if (empty()) return "";
  std::ostringstream text;
  text << "cmd=" << kCommands.at(static_cast<std::size_t>(cmd));
  if (!node.empty()) {
    text << ", node={";
    for (const auto& each : node) text << ' ' << each.DebugString();
    text << " }";
  }
  if (cmd == BARRIER) text << ", barrier_group=" << barrier_group;
  if (cmd == ACK) text << ", msg_sig=" << msg_sig;
  return text.str();
}

std::string Meta::DebugString() const {
  std::ostringstream text;
  if (sender == kEmpty)
    text << '?';
  else
    text << sender;
  text << " => " << recver << ". Meta: request=" << request;
  if (timestamp != kEmpty) text << ", timestamp=" << timestamp;
  if (control.empty())
    text << ", app_id=" << app_id << ", customer_id=" << customer_id
         << ", simple_app=" << simple_app << ", push=" << push << ", pull=" << pull;
  else
    text << ", control={ " << control.DebugString() << " }";
  if (head != kEmpty) text << ", head=" << head;
  if (!body.empty()) text << ", body=" << body;
  if (!data_type.empty()) {
    text << ", data_type={";
    for (const auto type : data_type) text << ' ' << DataTypeName[type];
    text << " }";
  }
  return text.str();
}

std::string Message::DebugString() const {
  std::ostringstream text;
  text << meta.DebugString();
  if (!data.empty()) text << " Body:";
  for (const auto& array : data) text << " data_size=" << array.size();
  return text.str();
}

}  // namespace ps
