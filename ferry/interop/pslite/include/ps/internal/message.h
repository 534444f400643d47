#pragma once

#include <ps/sarray.h>

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace ps {

// Of the elements of an array in a message.
enum DataType {
  CHAR,
  INT8,
  INT16,
  INT32,
  INT64,
  UINT8,
  UINT16,
  UINT32,
  UINT64,
  FLOAT,
  DOUBLE,
  OTHER
};
inline constexpr const char* DataTypeName[] = {"CHAR",   "INT8",  "INT16",  "INT32",
                                               "INT64",  "UINT8", "UINT16", "UINT32",
                                               "UINT64", "FLOAT", "DOUBLE", "OTHER"};

template <typename V, typename W>
inline bool SameType() {
  return std::is_same_v<std::remove_cv_t<V>, W>;
}

template <typename V>
DataType GetDataType() {
  using T = std::remove_cv_t<V>;
  if constexpr (std::is_same_v<T, float>) return FLOAT;
  if constexpr (std::is_same_v<T, double>) return DOUBLE;
  if constexpr (std::is_same_v<T, std::int8_t>) return INT8;
  if constexpr (std::is_same_v<T, std::int16_t>) return INT16;
  if constexpr (std::is_same_v<T, std::int32_t>) return INT32;
  if constexpr (std::is_same_v<T, std::int64_t>) return INT64;
  if constexpr (std::is_same_v<T, std::uint8_t>) return UINT8;
  if constexpr (std::is_same_v<T, std::uint16_t>) return UINT16;
  if constexpr (std::is_same_v<T, std::uint32_t>) return UINT32;
  if constexpr (std::is_same_v<T, std::uint64_t>) return UINT64;
  return OTHER;
}

// A process that takes part.
struct Node {
  static constexpr int kEmpty = std::numeric_limits<int>::max();
  enum Role { SERVER, WORKER, SCHEDULER };

  std::string DebugString() const;
  std::string ShortDebugString() const;  // W[9], say

  Role role = WORKER;
  int id = kEmpty;
  int customer_id = 0;
  std::string hostname;
  int port = kEmpty;
  bool is_recovery = false;
};

// What a message between nodes is for, if not for an application. Applications never get such
// messages; these are here for programs that look whether a message is one.
struct Control {
  enum Command { EMPTY, TERMINATE, ADD_NODE, BARRIER, ACK, HEARTBEAT };

  bool empty() const { return cmd == EMPTY; }
  std::string DebugString() const;

  Command cmd = EMPTY;
  std::vector<Node> node;
  int barrier_group = 0;
  std::uint64_t msg_sig = 0;
};

// What a message is about.
struct Meta {
  static constexpr int kEmpty = std::numeric_limits<int>::max();

  std::string DebugString() const;

  int head = kEmpty;  // the application's command
  int app_id = kEmpty;
  int customer_id = kEmpty;
  int timestamp = kEmpty;
  int sender = kEmpty;
  int recver = kEmpty;
  bool request = false;
  bool push = false;
  bool pull = false;
  bool simple_app = false;
  std::string body;
  std::vector<DataType> data_type;  // of each array of the message
  Control control;
  int data_size = 0;  // bytes of all arrays
  int priority = 0;
};

struct Message {
  Meta meta;
  std::vector<SArray<char>> data;

  template <typename V>
  void AddData(const SArray<V>& val) {
    CHECK_EQ(data.size(), meta.data_type.size());
    const SArray<char> bytes(val);
    meta.data_type.push_back(GetDataType<V>());
    meta.data_size += static_cast<int>(bytes.size());
    data.push_back(bytes);
  }
  std::string DebugString() const;
};

}  // namespace ps
